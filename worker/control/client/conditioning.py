"""ControlNet conditioning of an image before its first step, by model family."""

from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from worker.control.session import Opening
from worker.diffusion.device import to_device
from worker.diffusion.folded_attention import EMPTY_TOKENS, is_folded
from worker.diffusion.stock import Pipe


class PromptConditioning(Protocol):
    """What a prompt gives a model at every step."""

    @property
    def text(self) -> Tensor: ...
    @property
    def added(self) -> Mapping[str, Tensor]: ...


#: Tells a ControlNet, by its id, of a picture (uint8, [H, W, 3]) and a prompt.
Tell = Callable[[str, Tensor, PromptConditioning], Opening]


def tell_pixels(controlnet: str, picture: Tensor, conditioning: PromptConditioning) -> Opening:
    """Tell of the picture as it is."""
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
        pixels = to_device(picture, self._vae.device).permute(2, 0, 1)[None]
        latents = self._vae.encode((2 * (pixels.float() / 255) - 1).to(self._vae.dtype))
        middle: Tensor = latents.latent_dist.mode()
        both = [(middle - shift) * config.scaling_factor for shift in (0.0, config.shift_factor)]
        return torch.cat(both)


def _unfolded(text: Tensor) -> Tensor:
    """Give all tokens where one stands for many: ControlNets attend to each."""
    if not is_folded(text):
        return text
    return torch.cat([text, text[:, -1:].expand(-1, EMPTY_TOKENS - 1, -1)], dim=1)
