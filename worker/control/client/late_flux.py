"""Let Flux wait for each ControlNet residual at the block that adds it.

Its first blocks hold picture and caption apart, the others in one; a ControlNet has some of each,
and each of its residuals is added behind several blocks of its kind.
"""

from functools import partial

import torch
from torch import Tensor

from worker.control.client.late_blocks import late_forward
from worker.control.session import Residuals
from worker.control.streamed import Streamed
from worker.diffusion.forward_context import HookedModel
from worker.diffusion.stock import Module


class LateFluxResiduals:
    """The blocks of one Flux, each of which waits for the residual that follows it."""

    def __init__(self, transformer: Module) -> None:
        hooked = HookedModel.of(transformer)
        kinds = transformer.transformer_blocks, transformer.single_transformer_blocks
        self._depths = [len(blocks) for blocks in kinds]
        for number, block in enumerate(block for blocks in kinds for block in blocks):
            hooked.hook(block, "late residuals", partial(late_forward, number))

    def spread(self, residuals: Streamed) -> Residuals:
        """Give one residual for each block: zero for blocks of a kind that its ControlNet lacks."""
        counts = residuals.split, len(residuals) - residuals.split

        def find(at: int) -> Tensor:
            kind = int(at >= self._depths[0])
            at -= kind * self._depths[0]
            if not counts[kind]:
                return torch.zeros(len(residuals[0]), 1, 1, dtype=residuals[0].dtype)
            every = -(-self._depths[kind] // counts[kind])  # as stock counts
            return residuals[kind * counts[0] + at // every]

        return Streamed(sum(self._depths), find)
