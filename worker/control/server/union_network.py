"""ControlNet Union: told what each of its pictures shows, it fuses them in one call."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from core.errors import BadWeights
from worker.control.server.network import Begun, Give
from worker.control.server.unet_network import UNetNetwork
from worker.control.session import MODES, SCALES, Opening
from worker.diffusion.device import to_device
from worker.diffusion.stock import Module, hook_forward


class UnionNetwork(UNetNetwork):
    """A ControlNet of SDXL for pictures of several kinds, which it calls modes."""

    def __init__(self, controlnet: Module, *, device: torch.device, dtype: torch.dtype) -> None:
        """Take it over. Raises: BadWeights if it is of a kind that is not served."""
        super().__init__(controlnet, device=device, dtype=dtype)
        for layer in controlnet.transformer_layes:
            hook_forward(layer, "each row alone", _alone)

    @torch.inference_mode()
    def begin(self, opening: Opening) -> Begun:
        """Embed each picture of an image: what is told of them comes with the prompt."""
        modes = opening.added.get(MODES)
        if modes is None:
            raise BadWeights("a Union ControlNet is told the mode of each picture: say it")
        pictures = opening.condition
        begun = [super(UnionNetwork, self).begin(replace(opening, condition=p)) for p in pictures]
        told = {name: to_device(opening.added[name], self.device) for name in (MODES, SCALES)}
        return replace(
            begun[0],
            condition=torch.stack([each.condition for each in begun], dim=1),
            added=begun[0].added | told,
            alike=tuple(opening.added[SCALES][0].tolist()) if len(pictures) > 1 else (),
        )

    def call(
        self,
        latents: Tensor,
        times: Tensor,
        *,
        condition: Tensor,
        text: Tensor,
        added: dict[str, Tensor],
        give: Give,
    ) -> None:
        """See `Network.call`. Shapes: condition [B, pictures, C, h, w]."""
        modes, scales = added[MODES].long(), added[SCALES][0].tolist()
        kinds = one_hot(modes, self.controlnet.config.num_control_type).amax(dim=1)
        down, middle = self.controlnet(
            latents,
            times,
            encoder_hidden_states=text,
            controlnet_cond=list(condition.unbind(dim=1)),
            control_type=kinds.to(self.dtype),
            control_type_idx=list(modes.unbind(dim=1)),
            # What one picture makes is scaled by whoever asks, as that of any ControlNet.
            conditioning_scale=scales if len(scales) > 1 else [1.0],
            added_cond_kwargs={n: v for n, v in added.items() if n not in (MODES, SCALES)},
            return_dict=False,
        )
        give([*down, middle])


def _alone(whole: Callable[[Tensor], Tensor], layer: Module, pictures: Tensor) -> Tensor:
    """Keep the rows of a call apart: stock's attention goes along them, not along the pictures.

    It never shows there, as the rows of one image are alike in this, and one that attends to its
    likes sees itself. Shapes: [B, pictures + 1, C].
    """
    del layer
    return whole(pictures.flatten(0, 1)[None]).view_as(pictures)
