"""ControlNet conditioning of an image before its first step, by model family."""

from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from worker.control.session import Opening
from worker.diffusion.device import as_tensor, to_device
from worker.diffusion.folded_attention import EMPTY_TOKENS, is_folded
from worker.diffusion.runner import Pixels
from worker.diffusion.stock import Module, Pipe, tiling


class PromptConditioning(Protocol):
    """What a prompt gives a model at every step."""

    @property
    def text(self) -> Tensor: ...
    @property
    def added(self) -> Mapping[str, Tensor]: ...


#: Looks at a picture before the noise of an image is drawn, perhaps drawing some itself.
See = Callable[[Pixels, torch.Generator], Tensor]

#: Tells a ControlNet, by its id, of what was seen of a picture and a prompt.
Tell = Callable[[str, Tensor, PromptConditioning], Opening]


def see_pixels(picture: Pixels, generator: torch.Generator) -> Tensor:
    """See the picture as it is. Shapes: uint8, [H, W, 3]."""
    del generator
    return as_tensor(picture)


def seeing_latents(pipe: Pipe) -> See:
    """Prepare to draw the latents of pictures, by the noise of the image, as Flux's pipelines do.

    Shapes: [H, W, 3] -> [1, C, h, w]
    """
    vae = pipe.vae

    @torch.inference_mode()
    def see(picture: Pixels, generator: torch.Generator) -> Tensor:
        drawn: Tensor = _encoded(vae, as_tensor(picture)).sample(generator)
        latents: Tensor = (drawn - vae.config.shift_factor) * vae.config.scaling_factor
        return latents

    return see


def tell_as_seen(controlnet: str, picture: Tensor, conditioning: PromptConditioning) -> Opening:
    """Tell of the picture as it was seen."""
    return Opening(
        controlnet=controlnet,
        condition=picture,
        text=conditioning.text,
        added=conditioning.added,
    )


class TellLatents:
    """Tells of the picture as the model's autoencoder sees it."""

    def __init__(self, pipe: Pipe) -> None:
        self._vae = pipe.vae

    @torch.inference_mode()
    def __call__(
        self, controlnet: str, picture: Tensor, conditioning: PromptConditioning
    ) -> Opening:
        return Opening(
            controlnet=controlnet,
            condition=self._latents(picture),
            text=_unfolded(conditioning.text),
            added=conditioning.added,
        )

    def _latents(self, picture: Tensor) -> Tensor:
        """Encode without and with the autoencoder's shift: ControlNets read one or the other.

        Its most likely latents: stock draws them anew for every image, whatever its seed.

        Shapes: [H, W, 3] -> [2, C, h, w]
        """
        config = self._vae.config
        middle: Tensor = _encoded(self._vae, picture).mode()
        both = [(middle - shift) * config.scaling_factor for shift in (0.0, config.shift_factor)]
        return torch.cat(both)


def _encoded(vae: Module, picture: Tensor) -> Module:
    """Give the distribution of a picture's latents."""
    pixels = to_device(picture, vae.device).permute(2, 0, 1)[None]
    with tiling(vae, pixels.shape[-2] * pixels.shape[-1]):
        return vae.encode((2 * (pixels.float() / 255) - 1).to(vae.dtype)).latent_dist


def _unfolded(text: Tensor) -> Tensor:
    """Give all tokens where one stands for many: ControlNets attend to each."""
    if not is_folded(text):
        return text
    return torch.cat([text, text[:, -1:].expand(-1, EMPTY_TOKENS - 1, -1)], dim=1)
