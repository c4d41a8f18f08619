"""Measure block and load times of one model for `atelier profile`."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from catalog.masking.costs import BlockShape, CostLine, operations
from worker.diffusion.stock import Module
from worker.masking.blocks.masked import MaskedBlocks
from worker.masking.blocks.rows import MaskedRow, RecordedRow, Row
from worker.masking.quantised import Blocks, Quantised
from worker.masking.recording import StepFile

#: Shares of an image under the mask that blocks are timed at; None computes every token.
RATIOS = (0.05, 0.11, 0.2, 0.35, 0.5, None)

#: Runs the model with so many rows, treated as said.
Run = Callable[[Sequence[Row]], object]


class BlockTimer:
    """Times every hooked block of a model, on its device. Seconds."""

    def __init__(self, model: Module, names: Sequence[str]) -> None:
        self.seconds: dict[str, list[float]] = {name: [] for name in names}
        self._model = model

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time what is run in between."""
        handles = []
        for name in self.seconds:
            block = self._model.get_submodule(name)
            begun: list[float] = []
            handles.append(block.register_forward_pre_hook(self._begin(begun)))
            handles.append(block.register_forward_hook(self._end(name, begun)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def time(self, call: Callable[[], object]) -> float:
        """Time a whole step."""
        begun = self._now()
        call()
        return self._now() - begun

    def between(self, step_s: float) -> float:
        """Say how much of a step each block has to itself before it begins."""
        blocks_s = sum(median(taken) for taken in self.seconds.values())
        return max(0.0, step_s - blocks_s) / len(self.seconds)

    def _begin(self, begun: list[float]) -> Callable[..., None]:
        return lambda *_: begun.append(self._now())

    def _end(self, name: str, begun: list[float]) -> Callable[..., None]:
        return lambda *_: self.seconds[name].append(self._now() - begun.pop())

    def _now(self) -> float:
        """Read this thread's own time, or the device's once it has caught up."""
        if self._model.device.type == "cuda":
            torch.cuda.synchronize(self._model.device)
            return time.perf_counter()
        return time.thread_time()


def measure_compute(
    model: Module, blocks: MaskedBlocks, run: Run, cells: tuple[int, int], rounds: int = 5
) -> tuple[CostLine, float, Blocks]:
    """Time blocks with masks of several sizes.

    Gives what blocks take, what lies between two of them for each row (s), and what one step
    of them records. `run` makes a guided step of one image, that is of two rows.
    Shapes: cells is height and width of the latent.
    """
    record = RecordedRow()
    run([record, None])
    work, seconds, between = [], [], []
    for ratio in RATIOS:
        row = None if ratio is None else _square(cells, ratio, record.outputs)
        timer = BlockTimer(model, list(record.outputs))
        with timer.running():
            whole = [timer.time(partial(run, [row, row])) for _ in range(rounds)]
        between += [timer.between(step) for step in whole]
        for name, output in record.outputs.items():
            tokens, channels = output.shape
            shape = BlockShape(tokens=tokens, channels=channels, weights=blocks.weights[name])
            computed = tokens if row is None else len(row.tokens(tokens))
            work.append(operations(shape, computed, rows=2))
            seconds.append(median(timer.seconds[name]))
    recorded = {name: Quantised.of(output) for name, output in record.outputs.items()}
    return CostLine.fit(work, seconds), median(between) / 2, recorded


def measure_load(path: Path, device: torch.device, rounds: int = 20) -> CostLine:
    """Time loading runs of blocks, from one to all, from one step's open file to a device."""
    with StepFile(path) as file:
        names = list(file.sizes)
        lengths = [*(2**power for power in range(len(names).bit_length())), len(names)]
        runs = [
            names[begin : begin + length]
            for length in dict.fromkeys(lengths)
            for begin in range(0, len(names) - length + 1, length)
        ]
        sizes = {name: file.read(name).num_bytes for name in names}
        taken: list[list[float]] = [[] for _ in runs]
        for _ in range(rounds):
            for run, seconds in zip(runs, taken, strict=True):
                begun = time.perf_counter()
                for name in run:
                    file.read(name).to(device).restored()
                seconds.append(time.perf_counter() - begun)
    work = [[float(sum(sizes[name] for name in run))] for run in runs]
    return CostLine.fit(work, [min(seconds) for seconds in taken])  # longer: something else ran


def measure_copy(blocks: Blocks, device: torch.device, rounds: int = 5) -> CostLine:
    """Time copying blocks from host memory to a device; nothing where it is the host."""
    if device.type != "cuda":
        return CostLine(start_s=0.0, per_unit_s=(0.0,), r2=1.0)
    work, seconds = [], []
    for block in blocks.values():
        pinned, taken = block.pinned(), []
        for _ in range(rounds):
            begun = time.perf_counter()
            pinned.to(device)
            torch.cuda.synchronize(device)
            taken.append(time.perf_counter() - begun)
        work.append([float(block.num_bytes)])
        seconds.append(median(taken))
    return CostLine.fit(work, seconds)


def _square(cells: tuple[int, int], ratio: float, cached: Mapping[str, Tensor]) -> MaskedRow:
    """Cover a square in the middle with a share of the image."""
    mask = torch.zeros(cells)
    height, width = (max(1, round(side * math.sqrt(ratio))) for side in cells)
    top, left = (cells[0] - height) // 2, (cells[1] - width) // 2
    mask[top : top + height, left : left + width] = 1
    return MaskedRow(cells=mask, dilate=1, cached=cached)
