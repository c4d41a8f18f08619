"""Family without a model whose steps take their time, to try services and schedules anywhere."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.model import Model
from worker.diffusion.runner import Pixels
from worker.diffusion.slices import give_way
from worker.families.noop import NoopRunner, NoopSample

#: What each further image of a batch adds to a step, in those of one image alone.
SHARED = 0.3
PARTS = 20  #: of a decoder


class PacedRunner(NoopRunner):
    """Sleeps as long as a model's description says: to load, for a step, and to decode."""

    family = "paced"

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._parts = [_Part() for _ in range(PARTS)]

    @classmethod
    def load(
        cls, folder: Path, model: Model, *, device: str, dtype: str, only_predicts: bool = False
    ) -> "PacedRunner":
        """Take as long as the model says."""
        del folder, device, dtype, only_predicts
        time.sleep(model.load_s)
        return cls(model)

    def forward(self, samples: Sequence[NoopSample]) -> list[NDArray[np.float32]]:
        time.sleep(self.model.step_s * (1 + SHARED * (len(samples) - 1)))
        return super().forward(samples)

    def decode(self, sample: NoopSample) -> Pixels:
        for part in self._parts:
            give_way(part)
            time.sleep(self.model.step_s / PARTS)
        return super().decode(sample)


class _Part:
    """One part of a decoder: steps of others may come between two."""
