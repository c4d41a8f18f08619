"""Families whose steps, or loads, take the time that the model says, and no processor."""

import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.job import JobRequest
from core.model import Model
from core.settings import get_settings
from tests.rig import POISON
from worker.diffusion.runner import JobInputs, Pixels
from worker.families.noop import NoopRunner, NoopSample

#: Steps that a job of `FatalRunner` takes before it kills its worker.
FATAL = 30
#: A file in the data folder: the step that finds it takes it away and never ends.
HANG = "hang"
#: A file there: no model of `HeavyRunner` is loaded before it is gone.
HELD = "held"
#: Waited for in place of `time.sleep`, which fails where a test has shifted the clock.
_NEVER = threading.Event()


class SlowRunner(NoopRunner):
    def forward(self, samples: Sequence[NoopSample]) -> list[NDArray[np.float32]]:
        with suppress(FileNotFoundError):
            (get_settings().data_dir / HANG).unlink()
            _NEVER.wait()
        _NEVER.wait(self.model.step_s)
        return super().forward(samples)


class DeadlyRunner(SlowRunner):
    """A step of a job with a poisonous seed kills the process that takes it."""

    def forward(self, samples: Sequence[NoopSample]) -> list[NDArray[np.float32]]:
        if any(sample.latent[0] == POISON for sample in samples):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(samples)


class CountingRunner(SlowRunner):
    """An image is as bright as the number of steps that it took."""

    def open(self, request: JobRequest, seed: int, brought: JobInputs | None = None) -> NoopSample:
        sample = super().open(request, seed, brought)
        sample.latent = np.zeros(1, np.float32)
        return sample

    def forward(self, samples: Sequence[NoopSample]) -> list[NDArray[np.float32]]:
        return [latent + 1 for latent in super().forward(samples)]

    def decode(self, sample: NoopSample) -> Pixels:
        return np.full((*sample.size, 3), int(sample.latent[0]), np.uint8)


class FatalRunner(CountingRunner):
    """The step after so many kills the process that takes it: a job never comes further."""

    def forward(self, samples: Sequence[NoopSample]) -> list[NDArray[np.float32]]:
        if any(sample.latent[0] >= FATAL for sample in samples):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(samples)


class HeavyRunner(SlowRunner):
    @classmethod
    def load(
        cls, folder: Path, model: Model, *, device: str, dtype: str, only_predicts: bool = False
    ) -> "HeavyRunner":
        time.sleep(model.load_s)
        while (get_settings().data_dir / HELD).exists():
            time.sleep(0.02)
        return cls(model)


class ChainRunner(SlowRunner):
    """An image is a number that every step changes: of its seed and its steps, and nothing else."""

    def forward(self, samples: Sequence[NoopSample]) -> list[NDArray[np.float32]]:
        return [(latent * 3 + 1) % 251 for latent in super().forward(samples)]

    def decode(self, sample: NoopSample) -> Pixels:
        return np.full((*sample.size, 3), int(sample.latent[0]), np.uint8)
