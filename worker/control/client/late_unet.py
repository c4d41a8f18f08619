"""Let a UNet wait for ControlNet residuals in its decoder, not before its forward pass.

Encoder and middle do not depend on them: the decoder alone waits (Katz, Fig. 11). Nothing of the
forward pass is copied, and what is added is added as stock adds it, so images are the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from torch import Tensor

from core.errors import EngineError
from worker.control.session import Residuals
from worker.diffusion.forward_context import ContextPart, ForwardContext, HookedModel
from worker.diffusion.stock import Argument, Module


@dataclass(frozen=True, slots=True, eq=False)
class RowResiduals:
    """What is added to some rows of a batch."""

    rows: slice
    residuals: Residuals


#: Waits for the residuals of a forward pass.
Source = Callable[[], Sequence[RowResiduals]]


class LateRows(ContextPart):
    """What is added to the rows of a call, waited for by the first block that asks."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @cached_property
    def residuals(self) -> Sequence[RowResiduals]:
        """Wait for them, once. Raises: whatever the source does."""
        return self._source()


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
        """Hook them. Stock adds a residual before the first, then to connections from the last."""
        hooked, used = HookedModel.of(unet), 1
        for block in unet.up_blocks:
            hooked.hook(block, "late residuals", partial(_forward, used))
            used += len(block.resnets)

    def spread(self, residuals: Residuals) -> Residuals:
        """Give one residual for each connection, which a ControlNet has made as they are."""
        return residuals


def _forward(
    used: int,
    context: ForwardContext,
    whole: Callable[..., Argument],
    block: Module,
    *args: Argument,
    hidden_states: Tensor,
    res_hidden_states_tuple: tuple[Tensor, ...],
    **kwargs: Argument,
) -> Argument:
    """Run a block behind so many residuals that are `used` already."""
    del block
    late = context.get(LateRows)
    if late is not None:
        if used == 1:
            hidden_states = _add(late, hidden_states, -1)
        begin = -used - len(res_hidden_states_tuple)
        res_hidden_states_tuple = tuple(
            _add(late, features, begin + i) for i, features in enumerate(res_hidden_states_tuple)
        )
    return whole(
        *args,
        hidden_states=hidden_states,
        res_hidden_states_tuple=res_hidden_states_tuple,
        **kwargs,
    )


def _add(late: LateRows, features: Tensor, index: int) -> Tensor:
    """Add one residual of each ControlNet to its rows. Shapes: [B, C, h, w]."""
    features = features.clone()
    for each in late.residuals:
        features[each.rows] += _fitting(each.residuals, index, features[each.rows])
    return features


def _fitting(residuals: Residuals, index: int, like: Tensor) -> Tensor:
    if -index > len(residuals) or residuals[index].shape != like.shape:
        raise EngineError("a ControlNet of this job was made for another model: use one for this")
    return residuals[index].to(like.device, like.dtype)
