"""Let the encoder of a UNet add the features of T2I-Adapters, to some rows of a call.

Stock hands them to a UNet for all rows. Here each block of the encoder takes those of its rows, and
adds them where stock does: before it halves its picture, if it attends to the prompt, else behind.
What is left for the middle is added behind it.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial

from torch import Tensor

from core.errors import EngineError
from worker.control.client.late_unet import RowResiduals, Source
from worker.diffusion.forward_context import ContextPart, ForwardContext, HookedModel
from worker.diffusion.stock import Argument, Module


class LateFeatures(ContextPart):
    """What is added to the rows of a call, waited for by the first block that asks."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @cached_property
    def residuals(self) -> Sequence[RowResiduals]:
        """Wait for them, once. Raises: whatever the source does."""
        return self._source()


def hook_encoder(unet: Module) -> None:
    """Hook the blocks of an encoder and its middle."""
    hooked = HookedModel.of(unet)
    for number, block in enumerate(unet.down_blocks):
        attends = getattr(block, "has_cross_attention", False)
        hook = _before_halving if attends else _behind
        hooked.hook(block, "late features", partial(hook, number))
    hooked.hook(unet.mid_block, "late features", partial(_behind_middle, len(unet.down_blocks)))


def _before_halving(
    number: int,
    context: ForwardContext,
    whole: Callable[..., Argument],
    block: Module,
    *args: Argument,
    **kwargs: Argument,
) -> Argument:
    hidden = args[0] if args else kwargs["hidden_states"]
    if found := _of(context, number):
        channels = block.resnets[-1].out_channels
        added = hidden.new_zeros(len(hidden), channels, *hidden.shape[2:])
        for rows, features in found:
            _add(added, rows, features)
        kwargs["additional_residuals"] = added
    return whole(*args, **kwargs)


def _behind(
    number: int,
    context: ForwardContext,
    whole: Callable[..., tuple[Tensor, tuple[Tensor, ...]]],
    block: Module,
    *args: Argument,
    **kwargs: Argument,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    del block
    hidden, connections = whole(*args, **kwargs)
    for rows, features in _of(context, number):
        _add(hidden, rows, features)  # and to the last connection, which is the same tensor
    return hidden, connections


def _behind_middle(
    number: int,
    context: ForwardContext,
    whole: Callable[..., Tensor],
    block: Module,
    *args: Argument,
    **kwargs: Argument,
) -> Tensor:
    del block
    hidden = whole(*args, **kwargs)
    for rows, features in _of(context, number):
        if features.shape[1:] == hidden.shape[1:]:  # as stock does, which says nothing either
            _add(hidden, rows, features)
    return hidden


def _of(context: ForwardContext, number: int) -> list[tuple[slice, Tensor]]:
    """Give the features of one block, for the rows that have any."""
    late = context.get(LateFeatures)
    if late is None:
        return []
    return [
        (each.rows, each.residuals[number])
        for each in late.residuals
        if number < len(each.residuals)
    ]


def _add(hidden: Tensor, rows: slice, features: Tensor) -> None:
    own = hidden[rows]
    if own.shape != features.shape:
        raise EngineError(
            "a T2I-Adapter of this job was made for another model, or for pictures of other sizes: "
            "use one for this, and sides that it can halve as often as the model does"
        )
    hidden[rows] = own + features.to(hidden.device, hidden.dtype)
