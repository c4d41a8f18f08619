"""Replay forward passes of few rows: a host launches them more slowly than a GPU runs them.

A pass of SDXL is 2,100 launches; with the rows of one image an H100 waits for them a third of the
time (`docs/gpu.md`). A graph is one launch.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from core.log import get_logger
from worker.diffusion.device_graph import Capture, DeviceCapture
from worker.diffusion.runner import is_out_of_memory
from worker.diffusion.stock import first_line

log = get_logger(__name__)

#: Cells of latents in all rows of a pass, up to which it is replayed: with more a GPU is busy. A
#: step of SDXL, of 1,024 pixels: 64 ms until a host has launched it, 17 ms a row for an H100.
MOST_CELLS = 2**16
#: Passes that are remembered: those that came once, and the graphs of those that came twice.
MOST_PASSES = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pass:
    """A forward pass: what it is given, and how it runs on that or on other tensors like it."""

    inputs: Sequence[Tensor]  #: the latents of all rows first, [B, C, h, w]
    run: Callable[[Sequence[Tensor]], Tensor]
    key: Hashable = ()  #: what else decides which work it is
    num_changed: int = 0  #: of its last inputs, that it overwrites


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Graph:
    """One captured pass, and where its inputs and its answer lie."""

    inputs: Sequence[Tensor]
    replay: Callable[[], None]
    answer: Tensor
    num_changed: int

    def run(self, inputs: Sequence[Tensor]) -> Tensor:
        for own, given in zip(self.inputs, inputs, strict=True):
            own.copy_(given)
        self.replay()
        unchanged = len(inputs) - self.num_changed
        for own, given in zip(self.inputs[unchanged:], inputs[unchanged:], strict=True):
            given.copy_(own)
        return self.answer.clone()  # the next pass overwrites it


class StepGraphs:
    """The graphs of one model. Called by one thread."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        #: Of passes of so many inputs, if some were not captured: those of edits take more memory.
        self._most_cells: dict[int, int] = {}
        self._graphs: OrderedDict[Hashable, _Graph | None] = OrderedDict()
        #: By place and shape; graphs share them, as they run one at a time.
        self._inputs: WeakValueDictionary[Hashable, Tensor] = WeakValueDictionary()

    def replays(self, asked: Pass) -> bool:
        """Tell whether passes like this one are replayed."""
        most = self._most_cells.get(len(asked.inputs), MOST_CELLS)
        return cells(asked.inputs[0]) <= most

    def run(self, asked: Pass) -> Tensor:
        """Run a pass: as it is at first, by its graph from then on."""
        if not self.replays(asked):
            return asked.run(asked.inputs)
        key = (asked.key, tuple(each.shape for each in asked.inputs))
        graph = self._graphs.get(key)
        if graph is None and key in self._graphs:
            graph = self._captured(asked)
        self._keep(key, graph)
        return graph.run(asked.inputs) if graph else asked.run(asked.inputs)

    def forget(self) -> None:
        """Free all graphs."""
        self._graphs.clear()

    def _keep(self, key: Hashable, graph: _Graph | None) -> None:
        self._graphs[key] = graph
        self._graphs.move_to_end(key)
        while len(self._graphs) > MOST_PASSES:
            self._graphs.popitem(last=False)

    def _captured(self, asked: Pass) -> _Graph | None:
        """Capture a pass; None if that fails, and no later one as large is tried then."""
        try:
            own = [self._own(at, each) for at, each in enumerate(asked.inputs)]
            replay, answer = self._capture(lambda: asked.run(own))
        except RuntimeError as error:
            log.warning("steps_not_replayed", reason=first_line(error))
            fewer = cells(asked.inputs[0]) - 1 if is_out_of_memory(error) else 0
            self._most_cells[len(asked.inputs)] = fewer
            self.forget()
            return None
        return _Graph(inputs=own, replay=replay, answer=answer, num_changed=asked.num_changed)

    def _own(self, at: int, given: Tensor) -> Tensor:
        """Give the place that graphs read such an input from."""
        key = (at, given.shape, given.dtype)
        own = self._inputs.get(key)
        if own is None:
            own = self._inputs[key] = torch.clone(given)
        return own


def cells(latents: Tensor) -> int:
    """Count cells of latents in all rows. Shapes: [B, C, h, w]."""
    batch, _, height, width = latents.shape
    return batch * height * width


def graphs_on(device: torch.device) -> StepGraphs | None:
    """Replay the passes of a model on a GPU; None elsewhere: nothing launches them faster."""
    return StepGraphs(DeviceCapture(device)) if device.type == "cuda" else None
