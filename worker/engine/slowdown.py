"""Slowdown of this device: compare measured step times with the profile.

Others may share the device, or it may be another one under the same name. The scheduler plans by
what is reported here, so that it does not promise what the fleet cannot keep.
"""

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from catalog.profiled import read_profiled
from core.boards.cost import Cost
from core.model import Model

if TYPE_CHECKING:  # the scheduler reads this file, and has none of what slots are made of
    from worker.engine.slot import Slot

#: Busy seconds after which a step counts a third of what it did.
MEMORY_S = 10.0
#: Busy seconds before which nothing is said: the first steps of a model warm it up.
MIN_SEEN_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """One step of a batch."""

    images: int  #: stepping together
    is_guided: bool  #: two rows an image
    seconds: float  #: of the whole batch


@dataclass(frozen=True, slots=True, kw_only=True)
class _StepProfile:
    """The part of a profile that is read here."""

    #: device type -> model -> times of one step
    steps: Mapping[str, Mapping[str, tuple[StepTime, ...]]] = field(default_factory=dict)
    #: device type -> model -> seconds of an image beside its steps
    fixed: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class Expected:
    """Seconds of a step by the rows of its batch: lines through what was profiled."""

    def __init__(self, times: Iterable[StepTime]) -> None:
        by_rows = {time.images * (1 + time.is_guided): time.seconds for time in times}
        self._rows = sorted(by_rows)
        self._seconds = [by_rows[rows] for rows in self._rows]

    def knows(self, rows: int) -> bool:
        """Tell whether so few rows were ever timed: fewer take less, nobody knows how much."""
        return rows >= self._rows[0]

    def seconds(self, rows: int) -> float:
        """Expect a step of so many rows to take this long; beyond the largest, in proportion."""
        most = self._rows[-1]
        beyond = max(1.0, rows / most)
        return float(beyond * np.interp(min(rows, most), self._rows, self._seconds))


class StepPace:
    """Compares steps with the profile. `observe` belongs to the engine's thread alone."""

    def __init__(
        self,
        profiled: Mapping[str, Sequence[StepTime]],
        fixed: Mapping[str, float] | None = None,
    ) -> None:
        """Prepare; `fixed`: seconds of an image beside its steps, by model."""
        self._expected = {model: Expected(times) for model, times in profiled.items() if times}
        self._fixed = dict(fixed or {})
        self._lock = threading.Lock()
        self._taken_s = 0.0
        self._expected_s = 0.0

    @property
    def slowness(self) -> float:
        """Time of the last steps in profiled ones; 0 before enough was seen."""
        with self._lock:
            return self._taken_s / self._expected_s if self._taken_s >= MIN_SEEN_S else 0.0

    def expect(self, model: Model, cost: Cost) -> None:
        """Expect of a model that was not profiled what it took when it was tried here."""
        is_guided = model.is_guided(model.default_guidance)
        times = [StepTime(images=n, is_guided=is_guided, seconds=s) for n, s in cost.steps]
        self._expected = {**self._expected, model.name: Expected(times)}
        if cost.fixed_s:
            self._fixed = {**self._fixed, model.name: cost.fixed_s}

    def step_s(self, model: Model, rows: int, pixels: int) -> float | None:
        """Expect a step to take this long here (s), with so many pixels an image; None: unknown.

        An image of more pixels than usual takes more: by their square, as attention does.
        """
        expected = self._expected.get(model.name)
        if expected is None:
            return None
        return expected.seconds(rows) * self._larger(model, pixels)

    def around_s(self, model: Model, pixels: int) -> float | None:
        """Expect reading a prompt, or decoding, to take no longer here (s); None: unknown."""
        fixed_s = self._fixed.get(model.name)
        return None if fixed_s is None else fixed_s * self._larger(model, pixels)

    def _larger(self, model: Model, pixels: int) -> float:
        return max(1.0, pixels / model.default_size**2) ** 2 * max(1.0, self.slowness)

    def observe(self, batch: "Sequence[Slot]", step_s: float) -> None:
        """Note how long one step took, if it is one that the profile knows of."""
        expected = self._expected.get(batch[0].ticket.runner.model.name)
        if expected is None or not all(slot.ticket.is_as_profiled for slot in batch):
            return
        rows = sum(slot.rows for slot in batch)
        if not expected.knows(rows):
            return
        kept = math.exp(-step_s / MEMORY_S)
        with self._lock:
            self._taken_s = self._taken_s * kept + step_s
            self._expected_s = self._expected_s * kept + expected.seconds(rows)


def read_step_times(path: Path, device_type: str) -> Mapping[str, Sequence[StepTime]]:
    """Read what `atelier profile` measured of each model on one type of device.

    Raises:
        ConfigurationError: the file is not a profile; the message names it.
    """
    return read_profiled(path, _StepProfile).steps.get(device_type, {})


def read_fixed_times(path: Path, device_type: str) -> Mapping[str, float]:
    """Read what `atelier profile` measured of images beside their steps.

    Raises:
        ConfigurationError: the file is not a profile; the message names it.
    """
    return read_profiled(path, _StepProfile).fixed.get(device_type, {})
