"""Let a transformer wait for each ControlNet residual at the block that adds it.

Each block is followed by the residual of the block that is as deep in the ControlNet, as in stock.
So both go down side by side: a block waits for the residual before it alone, and that is sent as
soon as it is computed.
"""

from collections.abc import Callable
from functools import partial

from torch import Tensor

from core.errors import EngineError
from worker.control.client.late_unet import LateRows
from worker.control.session import Residuals
from worker.control.streamed import Streamed
from worker.diffusion.forward_context import ForwardContext, HookedModel
from worker.diffusion.stock import Argument, Module


class LateBlockResiduals:
    """The blocks of one transformer, each of which waits for the residual that follows it."""

    def __init__(self, transformer: Module) -> None:
        hooked, blocks = HookedModel.of(transformer), transformer.transformer_blocks
        self._depth = len(blocks)
        for number, block in enumerate(blocks):
            hooked.hook(block, "late residuals", partial(late_forward, number))

    def spread(self, residuals: Residuals) -> Residuals:
        """Give one residual for each block of the transformer, which may have more blocks."""
        depth = self._depth / len(residuals)  # in blocks of the transformer, as stock counts
        return Streamed(self._depth, lambda at: residuals[int(at / depth)])


def late_forward(
    number: int,
    context: ForwardContext,
    whole: Callable[..., tuple[Tensor, Tensor]],
    block: Module,
    *args: Argument,
    **kwargs: Argument,
) -> tuple[Tensor, Tensor]:
    """Add to the picture of a block the residual of this number, where rows have any."""
    caption, picture = whole(*args, **kwargs)
    late = context.get(LateRows)
    # Stock leaves the last block of SD3 alone.
    if late is None or getattr(block, "context_pre_only", False):
        return caption, picture
    return caption, _add(late, picture, number)


def _add(late: LateRows, picture: Tensor, number: int) -> Tensor:
    """Add one residual to the rows of each image. Shapes: [B, N, C]."""
    picture = picture.clone()
    for each in late.residuals:
        residual = each.residuals[number]
        rows = picture[each.rows]
        if residual.shape not in (rows.shape, (len(rows), 1, 1)):  # zero where there is none
            raise EngineError(
                "a ControlNet of this job was made for another model: use one for this"
            )
        picture[each.rows] = rows + residual.to(rows.device, rows.dtype)
    return picture
