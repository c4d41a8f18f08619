"""Stable Diffusion 3 ControlNet: conditioned on latents, one residual per block.

Each of its blocks has a residual, given before the next block runs: a transformer adds one after
each of its own blocks, and so needs the first long before there is a last.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from core.errors import BadWeights
from worker.control.server.network import Begun, Give, Network
from worker.control.session import Opening
from worker.diffusion.forward_context import ContextPart, ForwardContext, HookedModel
from worker.diffusion.stock import Argument, Module, as_it_is, hook_forward

_POOLED = "pooled_projections"


@dataclass(frozen=True, slots=True, eq=False)
class Given(ContextPart):
    """Who is given each residual of a call, as soon as there is one."""

    to: Give


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
        self._hooked = HookedModel.of(controlnet)
        blocks, last_layers = controlnet.transformer_blocks, controlnet.controlnet_blocks
        self._last = {
            block: layer.forward for block, layer in zip(blocks, last_layers, strict=True)
        }
        for block, layer in zip(blocks, last_layers, strict=True):
            self._hooked.hook(block, "residual", self._forward)
            hook_forward(layer, "done", as_it_is)  # stock calls all of them at the end

    @property
    def num_residuals(self) -> int:
        return len(self._last)

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
        with self._hooked.running(ForwardContext(Given(give))):
            self.controlnet(
                latents,
                timestep=times,
                encoder_hidden_states=text,
                controlnet_cond=condition,
                return_dict=False,
                **added,
            )

    def _forward(
        self,
        context: ForwardContext,
        whole: Callable[..., tuple[Tensor, Tensor]],
        block: Module,
        **kwargs: Argument,
    ) -> tuple[Tensor, Tensor]:
        caption, picture = whole(**kwargs)
        if (given := context.get(Given)) is not None:
            given.to([self._last[block](picture)])
        return caption, picture
