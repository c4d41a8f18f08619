"""Let a transformer wait for each ControlNet residual at the block that adds it.

Each block is followed by the residual of the block that is as deep in the ControlNet, as in stock.
So both go down side by side: a block waits for the residual before it alone, and that is sent as
soon as it is computed.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

from core.errors import EngineError
from worker.control.client.late_unet import RowResiduals, Source
from worker.control.session import Residuals
from worker.control.streamed import Streamed
from worker.diffusion.stock import Argument, Module, hook_forward


class LateBlockResiduals:
    """The blocks of one transformer, each of which waits for the residual that follows it."""

    def __init__(self, transformer: Module) -> None:
        self.source: Source | None = None  #: of the forward pass at hand; None: there are none
        self._here: Sequence[RowResiduals] = ()  #: of the forward pass at hand
        self._number = {block: at for at, block in enumerate(transformer.transformer_blocks)}
        for block in transformer.transformer_blocks:
            hook_forward(block, "late residuals", self._forward)

    def _forward(
        self,
        whole: Callable[..., tuple[Tensor, Tensor]],
        block: Module,
        *args: Argument,
        **kwargs: Argument,
    ) -> tuple[Tensor, Tensor]:
        caption, picture = whole(*args, **kwargs)
        if self.source is None or block.context_pre_only:  # stock leaves the last one alone
            return caption, picture
        if self._number[block] == 0:
            self._here = self.source()
        return caption, self._add(picture, self._number[block])

    def spread(self, residuals: Residuals) -> Residuals:
        """Give one residual for each block of the transformer, which may have more blocks."""
        depth = len(self._number) / len(residuals)  # in blocks of the transformer, as stock counts
        return Streamed(len(self._number), lambda at: residuals[int(at / depth)])

    def _add(self, picture: Tensor, number: int) -> Tensor:
        """Add one residual to the rows of each image. Shapes: [B, N, C]."""
        picture = picture.clone()
        for each in self._here:
            residual = each.residuals[number]
            rows = picture[each.rows]
            if residual.shape != rows.shape:
                raise EngineError(
                    "a ControlNet of this job was made for another model: use one for this"
                )
            picture[each.rows] = rows + residual.to(rows.device, rows.dtype)
        return picture
