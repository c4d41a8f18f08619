"""Compile each block of a model separately, so ControlNets, LoRAs and masks still apply.

Each block that the model repeats is one compiled region; those alike share their graphs. What is
between them runs as it is: residuals join there, and the decoder waits there. LoRAs that are merged
change weights in place, which graphs read where they are. A block that is changed inside, row by
row, runs without its graph.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch

from worker.diffusion.forward_context import ContextPart, ForwardContext, HookedModel
from worker.diffusion.stock import Argument, Module

#: Graphs of one class: its shapes in a model, by buckets of rows, by sizes of pictures, by models.
#: What is beyond them runs without; torch would stop at 8.
_MOST_GRAPHS = 1024

#: What makes code of a graph: a name that torch knows, or a function of a graph and its inputs.
Backend = str | Callable[..., Callable[..., Argument]]
#: A block's own forward pass, as it is or compiled.
_Forward = Callable[..., Argument]


@dataclass(frozen=True, slots=True, eq=False)
class ByGraphs(ContextPart):
    """Runs a call by the graphs of the model."""

    eager: frozenset[str]  #: blocks that run without, as layers in them are changed


class Regions:
    """The blocks of one model, each compiled by itself at its first use with new shapes."""

    def __init__(self, model: Module, compiled: Collection[str], *, backend: Backend) -> None:
        """Compile each block below all that is laid over it later, by masks and ControlNets.

        `compiled`: classes of blocks, by name.
        """
        self._changed: Collection[str] = frozenset()  #: layers, at the last call
        self._told = ForwardContext(ByGraphs(eager=frozenset()))  #: for such layers
        self.names = [n for n, each in model.named_modules() if type(each).__name__ in compiled]
        hooked = HookedModel.of(model)
        for name in self.names:
            block = model.get_submodule(name)
            graph = torch.compile(block.forward, dynamic=False, backend=backend)
            hooked.hook(block, "compiled", partial(_forward, name, graph))

    @contextmanager
    def running(self, changed: Collection[str]) -> Iterator[ForwardContext]:
        """Say what a call by graphs is told, while torch is set for one; for `with`.

        Blocks with layers changed inside run without their graphs.
        """
        if changed != self._changed:
            self._changed = changed
            self._told = ForwardContext(ByGraphs(eager=self._blocks_with(changed)))
        # Torch keeps these settings per thread.
        with torch._dynamo.config.patch(
            recompile_limit=_MOST_GRAPHS, accumulated_recompile_limit=_MOST_GRAPHS
        ):
            yield self._told

    def _blocks_with(self, layers: Collection[str]) -> frozenset[str]:
        return frozenset(
            name
            for name in self.names
            if any(layer == name or layer.startswith(f"{name}.") for layer in layers)
        )


def _forward(
    name: str,
    compiled: _Forward,
    context: ForwardContext,
    whole: _Forward,
    block: Module,
    *args: Argument,
    **kwargs: Argument,
) -> Argument:
    del block
    by_graphs = context.get(ByGraphs)
    is_compiled = by_graphs is not None and name not in by_graphs.eager
    return (compiled if is_compiled else whole)(*args, **kwargs)
