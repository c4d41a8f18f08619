"""A runner without a model, whose images can be worked out by hand and whose calls can fail."""

from dataclasses import dataclass

import numpy as np

from core.model import Model
from worker.diffusion.runner import Sample


@dataclass(slots=True, kw_only=True, eq=False)
class FakeSample(Sample):
    seed: int
    prompt: str
    value: float


class FakeRunner:
    """Prompts say what goes wrong: `fail open`, `fail forward`, `fail advance`, `fail decode`."""

    decodes_freely = False

    def __init__(self, name="tiny", *, fits_rows=None):
        self.model = Model(name=name, family="fake")
        self.fits_rows = fits_rows  #: more rows in one call run out of memory
        self.memory_error = RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        self.batches = []  #: seeds of each successful forward call
        self.trims = 0
        self.is_closed = False
        self.before_forward = lambda: None

    def open(self, request, seed, inputs=None):
        self._maybe_fail("open", request.prompt)
        rows = 2 if request.guidance > 1 else 1
        return FakeSample(
            group=((request.height, request.width), 77),
            rows=rows,
            num_steps=request.steps,
            seed=seed,
            prompt=request.prompt,
            value=float(seed),
        )

    def encoding(self, request):
        return None

    def forward(self, samples):
        self.before_forward()
        for sample in samples:
            self._maybe_fail("forward", sample.prompt)
        if self.fits_rows is not None and sum(s.rows for s in samples) > self.fits_rows:
            raise self.memory_error
        self.batches.append([sample.seed for sample in samples])
        return [0.5 * sample.value + 1 for sample in samples]

    def advance(self, samples, predictions):
        for sample in samples:
            self._maybe_fail("advance", sample.prompt)
        for sample, prediction in zip(samples, predictions, strict=True):
            sample.value = prediction

    def preview(self, sample, request):
        return None

    def decode(self, sample):
        self._maybe_fail("decode", sample.prompt)
        return np.full((2, 2, 3), sample.value)

    def trim(self):
        self.trims += 1

    def close(self):
        self.is_closed = True

    def _maybe_fail(self, where, prompt):
        if prompt == f"fail {where}":
            raise ValueError(f"a poisoned {where}")
        if prompt == f"full {where}":
            raise self.memory_error


def value_of(seed, steps):
    """Work out the image of this seed, made alone."""
    value = float(seed)
    for _ in range(steps):
        value = 0.5 * value + 1
    return value
