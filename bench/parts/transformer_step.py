"""Time a transformer step under a mask, for each kind of recorded activations."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from bench.parts.report import Instant, median
from catalog.masking.config import Keep, MaskingConfig
from worker.diffusion.forward_context import ForwardContext
from worker.diffusion.stock import Module
from worker.masking.activation_prefetch import InMemory
from worker.masking.blocks.flux import FLUX_CUTS
from worker.masking.blocks.joint import JOINT_CUTS
from worker.masking.blocks.masked import MaskedBlocks
from worker.masking.blocks.rows import EditRows, MaskedRow, RecordedRow, Row
from worker.masking.drift_correction import Once
from worker.masking.recording import Recording

#: Of all transformers that are compared.
CUTS = {**JOINT_CUTS, **FLUX_CUTS}
#: Cells of the latent, on a side.
_LATENT = 96


class TransformerStep:
    """A step of one edit: a row of a prompt, and before it one told nothing if it is guided."""

    @torch.inference_mode()
    def __init__(self, transformer: Module, inputs: dict[str, Tensor]) -> None:
        """Record a template, once for each way of keeping it; the row of the template is first."""
        self._transformer, self._inputs = transformer, inputs
        self._blocks, self._num_rows = MaskedBlocks(transformer, CUTS), len(inputs["timestep"])
        self._recordings = {keeps: self._record(keeps) for keeps in Keep}

    def mebibytes(self, keeps: Keep) -> float:
        """Say how much is kept of the template for this step."""
        return self._recordings[keeps].num_bytes / 2**20

    @torch.inference_mode()
    def gains(self, ratio: float, rounds: int) -> dict[Keep, float]:
        """Compare a step in full with one under a mask of a share of the picture, CPU time.

        What is kept lies in memory, as it was quantised.
        """
        masked = {keeps: self._masked(keeps, ratio) for keeps in Keep}
        gains: dict[Keep, list[float]] = {keeps: [] for keeps in Keep}
        for _ in range(rounds):
            full_s = self._step(())
            for keeps, rows in masked.items():
                gains[keeps].append(full_s / self._step(rows))
        return {keeps: median(of) for keeps, of in gains.items()}

    def _record(self, keeps: Keep) -> Recording:
        row = RecordedRow(keeps=keeps, has_caption=self._num_rows > 1)
        self._step([row, *[None] * (self._num_rows - 1)])
        recording = Recording()
        recording.keep(0, row.outputs)
        return recording

    def _masked(self, keeps: Keep, ratio: float) -> list[Row]:
        cells, edge = torch.zeros(_LATENT, _LATENT), round(_LATENT * math.sqrt(ratio))
        cells[4 : 4 + edge, 4 : 4 + edge] = 1
        cached = Once(InMemory(self._recordings[keeps].steps[0]))
        row = MaskedRow(cells=cells, dilate=MaskingConfig().dilate, cached=cached)
        first = row.next_step(cached, is_told_alike=self._num_rows > 1)
        return [first, *[row] * (self._num_rows - 1)]

    def _step(self, rows: Sequence[Row]) -> float:
        begin = Instant.now()
        with self._blocks.hooked.running(ForwardContext(EditRows(rows))):
            self._transformer(**self._inputs)
        return (Instant.now() - begin).cpu_s
