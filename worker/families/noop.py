"""Family without a model, to measure overhead around it. No device work at all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.errors import EngineError
from core.job import JobRequest
from core.levels.approximation import Approximation
from core.model import Model
from core.traits import Key, key_of
from worker.diffusion.runner import JobInputs, Pixels, Sample


@dataclass(slots=True, kw_only=True, eq=False)
class NoopSample(Sample):
    """An image that needs no making."""

    latent: NDArray[np.float32]  #: one number
    size: tuple[int, int]  #: height and width, pixels


class NoopRunner:
    """Takes as many steps as asked for and returns a grey image."""

    family = "noop"
    decodes_freely = False

    def __init__(self, model: Model) -> None:
        self.model = model

    @classmethod
    def load(
        cls, folder: Path, model: Model, *, device: str, dtype: str, only_predicts: bool = False
    ) -> "NoopRunner":
        """There is nothing to load."""
        del folder, device, dtype, only_predicts
        return cls(model)

    def open(self, request: JobRequest, seed: int, brought: JobInputs | None = None) -> NoopSample:
        del brought
        return NoopSample(
            group=tuple(key_of(Key.BATCH, request, is_guided=False).values()),
            rows=1,
            num_steps=request.steps,
            latent=np.full(1, seed % 256, np.float32),
            size=(request.height, request.width),
        )

    def encoding(self, request: JobRequest) -> Callable[[], object] | None:
        """There is nothing to encode."""

    def approximate(self, sample: NoopSample, approximation: Approximation) -> None:
        """There is nothing to leave out."""

    def forward(self, samples: Sequence[NoopSample]) -> list[NDArray[np.float32]]:
        return [sample.latent for sample in samples]

    def advance(
        self, samples: Sequence[NoopSample], predictions: Sequence[NDArray[np.float32]]
    ) -> None:
        for sample, prediction in zip(samples, predictions, strict=True):
            sample.latent = prediction

    def preview(self, sample: NoopSample, request: JobRequest) -> Callable[[], Pixels] | None:
        """There is nothing to see."""

    def state_of(self, sample: NoopSample) -> Callable[[], bytes] | None:
        return partial(bytes, sample.latent.tobytes())

    def resume(self, sample: NoopSample, payload: bytes) -> int:
        if len(payload) != sample.latent.nbytes:
            raise EngineError("the state is of another image")
        sample.latent = np.frombuffer(payload, np.float32).copy()
        return 0

    def decode(self, sample: NoopSample) -> Pixels:
        return _grey(*sample.size)

    def trim(self) -> None:
        return None

    def close(self) -> None:
        return None


@lru_cache(maxsize=8)
def _grey(height: int, width: int) -> Pixels:
    image = np.full((height, width, 3), 128, np.uint8)
    image.setflags(write=False)
    return image
