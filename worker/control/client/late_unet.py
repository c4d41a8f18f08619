"""Let a UNet wait for ControlNet residuals in its decoder, not before its forward pass.

Encoder and middle do not depend on them: the decoder alone waits (Katz, Fig. 11). Nothing of the
forward pass is copied, and what is added is added as stock adds it, so images are the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from core.errors import EngineError
from worker.control.session import Residuals
from worker.diffusion.stock import Argument, Module, hook_forward


@dataclass(frozen=True, slots=True, eq=False)
class RowResiduals:
    """What is added to some rows of a batch."""

    rows: slice
    residuals: Residuals


#: Waits for the residuals of a forward pass.
Source = Callable[[], Sequence[RowResiduals]]


def among(all_rows: Sequence[RowResiduals], numbers: Sequence[int]) -> list[RowResiduals]:
    """Give the residuals of some rows of a batch, as these are numbered among themselves.

    Those of one image are one or two, so they follow one another.
    """
    found = []
    for each in all_rows:
        first, end = each.rows.start, each.rows.stop
        own = [(at, number - first) for at, number in enumerate(numbers) if first <= number < end]
        if own:
            (begin, row), (last, last_row) = own[0], own[-1]
            residuals = [tensor[row : last_row + 1] for tensor in each.residuals]
            found.append(RowResiduals(slice(begin, last + 1), residuals))
    return found


class LateResiduals:
    """The decoder blocks of one UNet, which ask for residuals when the first of them runs."""

    def __init__(self, unet: Module) -> None:
        self.source: Source | None = None  #: of the forward pass at hand; None: there are none
        self._here: Sequence[RowResiduals] = ()  #: of the forward pass at hand
        self._first = unet.up_blocks[0]
        self._taken = 0  #: connections to the encoder that were used so far, from the last one
        for block in unet.up_blocks:
            hook_forward(block, "late residuals", self._forward)

    def spread(self, residuals: Residuals) -> Residuals:
        """Give one residual for each connection, which a ControlNet has made as they are."""
        return residuals

    def _forward(
        self,
        whole: Callable[..., Argument],
        block: Module,
        *args: Argument,
        hidden_states: Tensor,
        res_hidden_states_tuple: tuple[Tensor, ...],
        **kwargs: Argument,
    ) -> Argument:
        if self.source is not None:
            if block is self._first:
                self._here, self._taken = self.source(), 1
                hidden_states = self._add(hidden_states, -1)
            count = len(res_hidden_states_tuple)
            begin = -self._taken - count
            res_hidden_states_tuple = tuple(
                self._add(features, begin + i) for i, features in enumerate(res_hidden_states_tuple)
            )
            self._taken += count
        return whole(
            *args,
            hidden_states=hidden_states,
            res_hidden_states_tuple=res_hidden_states_tuple,
            **kwargs,
        )

    def _add(self, features: Tensor, index: int) -> Tensor:
        """Add one residual of each ControlNet to its rows. Shapes: [B, C, h, w]."""
        features = features.clone()
        for each in self._here:
            features[each.rows] += _fitting(each.residuals, index, features[each.rows])
        return features


def _fitting(residuals: Residuals, index: int, like: Tensor) -> Tensor:
    if -index > len(residuals) or residuals[index].shape != like.shape:
        raise EngineError("a ControlNet of this job was made for another model: use one for this")
    return residuals[index].to(like.device, like.dtype)
