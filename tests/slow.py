"""Families whose steps, or loads, take the time that the model says, and no processor."""

import time
from pathlib import Path

from core.variant import Model
from worker.families.noop import NoopRunner


class SlowRunner(NoopRunner):
    def forward(self, samples):
        time.sleep(self.model.step_s)
        return super().forward(samples)


class HeavyRunner(SlowRunner):
    @classmethod
    def load(cls, folder: Path, model: Model, *, device: str, dtype: str) -> "HeavyRunner":
        time.sleep(model.load_s)
        return cls(model)
