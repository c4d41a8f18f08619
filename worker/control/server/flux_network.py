"""Flux ControlNet: conditioned on latents, a residual per block, which are of two kinds."""

import torch
from torch import Tensor
from torch.nn.functional import pixel_unshuffle

from core.errors import BadWeights
from worker.control.server.block_residuals import BlockResiduals
from worker.control.server.network import Begun, Give, Network
from worker.control.session import MODES, Opening
from worker.diffusion.device import to_device
from worker.diffusion.stock import Module

_POOLED, _GUIDANCE = "pooled_projections", "guidance"


class FluxNetwork(Network):
    """A ControlNet of Flux: of one kind of pictures, or a Union that is told the kind."""

    def __init__(self, controlnet: Module, *, device: torch.device, dtype: torch.dtype) -> None:
        """Take it over. Raises: BadWeights if it is of a kind that is not served."""
        super().__init__(controlnet, device=device, dtype=dtype)
        if controlnet.input_hint_block is not None:
            raise BadWeights(
                "a Flux ControlNet that reads pixels (XLabs') is not served: use one that reads "
                "latents, as InstantX's and Shakker's do"
            )
        self._blocks = BlockResiduals(
            controlnet,
            (controlnet.transformer_blocks, controlnet.controlnet_blocks),
            (controlnet.single_transformer_blocks, controlnet.controlnet_single_blocks),
        )

    @property
    def num_residuals(self) -> int:
        return sum(self._blocks.counts)

    @property
    def split(self) -> int:
        return self._blocks.counts[0]

    @torch.inference_mode()
    def begin(self, opening: Opening) -> Begun:
        """Pack the latents of the condition, and check that it is told what it reads."""
        rows, config, told = len(opening.text), self.controlnet.config, opening.added
        if config.guidance_embeds and _GUIDANCE not in told:
            raise BadWeights(
                "it reads the guidance scale, and its base model does not: use another"
            )
        if (config.num_mode is not None) != (MODES in told):
            raise BadWeights("a Union ControlNet, and no other, is told the mode of its picture")
        names = [_POOLED, *([_GUIDANCE] if config.guidance_embeds else [])]
        added = {name: self.here(told[name]) for name in names}
        if MODES in told:
            added[MODES] = to_device(told[MODES], self.device)
        packed = _pack(self.here(opening.condition))
        return Begun(condition=packed.repeat(rows, 1, 1), text=self.here(opening.text), added=added)

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
        """See `Network.call`. Shapes: condition [B, tokens, 4 C]."""
        height, width = (side // 2 for side in latents.shape[2:])
        modes = added.get(MODES)
        with self._blocks.given(give):
            self.controlnet(
                _pack(latents),
                controlnet_cond=condition,
                controlnet_mode=modes.long() if modes is not None else None,
                encoder_hidden_states=text,
                pooled_projections=added[_POOLED],
                timestep=times.to(latents.dtype) / 1000,
                img_ids=_places(height, width).to(latents.device, latents.dtype),
                txt_ids=latents.new_zeros(text.shape[1], 3),
                guidance=added.get(_GUIDANCE),
                return_dict=False,
            )


def _pack(latents: Tensor) -> Tensor:
    """Shapes: [B, C, h, w] -> [B, hw / 4, 4 C]."""
    return pixel_unshuffle(latents, 2).flatten(2).transpose(1, 2)


def _places(height: int, width: int) -> Tensor:
    """Number rows and columns, as Flux's pipelines do. Shapes: [height width, 3]."""
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([torch.zeros_like(rows), rows, columns], dim=-1).flatten(0, 1)
