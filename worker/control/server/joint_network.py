"""Stable Diffusion 3 ControlNet: conditioned on latents, one residual per block."""

import torch
from torch import Tensor

from core.errors import BadWeights
from worker.control.server.block_residuals import BlockResiduals
from worker.control.server.network import Begun, Give, Network
from worker.control.session import Opening
from worker.diffusion.stock import Module

_POOLED = "pooled_projections"


class JointNetwork(Network):
    """A ControlNet with joint blocks: one residual a block, for every picture token."""

    def __init__(self, controlnet: Module, *, device: torch.device, dtype: torch.dtype) -> None:
        """Take it over. Raises: BadWeights if it is of a kind that is not served."""
        super().__init__(controlnet, device=device, dtype=dtype)
        config = controlnet.config
        if config.joint_attention_dim is None or not config.use_pos_embed:
            raise BadWeights("a ControlNet that shares parts of its model is not served")
        if config.extra_conditioning_channels:
            raise BadWeights("a ControlNet that reads a mask beside its condition is not served")
        self._blocks = BlockResiduals(
            controlnet, (controlnet.transformer_blocks, controlnet.controlnet_blocks)
        )

    @property
    def num_residuals(self) -> int:
        return self._blocks.counts[0]

    @torch.inference_mode()
    def begin(self, opening: Opening) -> Begun:
        """Choose which latents of the condition are read, and whether the pooled prompt is."""
        is_plain = self.controlnet.config.force_zeros_for_pooled_projection
        condition = opening.condition[:1] if is_plain else opening.condition[1:]
        pooled = self.here(opening.added[_POOLED])
        return Begun(
            condition=self.here(condition).repeat(len(opening.text), 1, 1, 1),
            text=self.here(opening.text),
            added={_POOLED: torch.zeros_like(pooled) if is_plain else pooled},
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
        with self._blocks.given(give):
            self.controlnet(
                latents,
                timestep=times,
                encoder_hidden_states=text,
                controlnet_cond=condition,
                return_dict=False,
                **added,
            )
