"""Give the residual of each block of a ControlNet before its next block runs.

A transformer adds one after each of its own blocks, and so needs the first long before there is a
last.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from worker.control.server.network import Give
from worker.diffusion.forward_context import ContextPart, ForwardContext, HookedModel
from worker.diffusion.stock import Argument, Module, as_it_is, hook_forward


@dataclass(frozen=True, slots=True, eq=False)
class _Given(ContextPart):
    """Who is given each residual of a call, as soon as there is one."""

    to: Give


class BlockResiduals:
    """The blocks of one ControlNet, in kinds, each kind with its last layers."""

    def __init__(self, controlnet: Module, *kinds: tuple[Module, Module]) -> None:
        """Hook them; `kinds`: blocks, and the layer that makes a residual of each."""
        self._hooked = HookedModel.of(controlnet)
        self.counts = [len(blocks) for blocks, _ in kinds]
        for blocks, layers in kinds:
            for block, layer in zip(blocks, layers, strict=True):
                self._hooked.hook(block, "residual", partial(_forward, layer.forward))
                hook_forward(layer, "done", as_it_is)  # stock calls all of them at the end

    @contextmanager
    def given(self, to: Give) -> Iterator[None]:
        """Give those of one call to somebody; for `with`."""
        with self._hooked.running(ForwardContext(_Given(to))):
            yield


def _forward(
    last: Callable[[Tensor], Tensor],
    context: ForwardContext,
    whole: Callable[..., tuple[Tensor, Tensor]],
    block: Module,
    *args: Argument,
    **kwargs: Argument,
) -> tuple[Tensor, Tensor]:
    del block
    caption, picture = whole(*args, **kwargs)
    if (given := context.get(_Given)) is not None:
        given.to([last(picture)])
    return caption, picture
