"""Decode images beside the steps of others: in slices, the longer the more of them wait."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from worker.diffusion.slices import Slices
from worker.engine.batch import MOST_SLICES, SHARE_ASIDE
from worker.engine.slot import Slot, alone
from worker.engine.stats import DECODING, Activities, Activity

Made = TypeVar("Made")


@dataclass(slots=True, eq=False)
class Parts:
    """The decoding of one image, which goes on and is left off again."""

    _activities: Activities
    _activity: Activity
    _seconds: float = 0.0

    @contextmanager
    def part(self) -> Iterator[None]:
        """Be at it for a while."""
        self._activities.now, began = self._activity, time.perf_counter()
        try:
            yield
        finally:
            self._activities.now = None
            self._seconds += time.perf_counter() - began

    def end(self) -> None:
        """Say how long all of it took."""
        self._activities.note_decoding(self._activity.model.name, self._seconds)
        self._activities.on_done(self._activity, self._seconds)


@dataclass(slots=True, eq=False)
class SlicedDecoding:
    """Decodes one image after the other, while others step. Belongs to the engine's thread."""

    _activities: Activities
    leaving: list[Slot] = field(default_factory=list)  #: latents that are decoded
    _slices: Slices = field(default_factory=Slices)
    _overrun_s: float = 0.0  #: by which the last slice was too long: its last layer's

    def add(
        self, slot: Slot, decode: Callable[[], Made], done: Callable[[Slot, Made], object]
    ) -> None:
        """Decode one more, after the others; `done` hears what has become of it."""
        parts = Parts(self._activities, alone(DECODING, slot))

        def end(made: Made) -> None:
            parts.end()
            self.leaving.remove(slot)
            done(slot, made)

        self.leaving.append(slot)
        self._slices.add(decode, end, parts.part)

    def work(self, step_s: float, opening_s: float) -> None:
        """Decode for a slice.

        Not beside what was opened, if that took as long.

        Args:
            step_s: of the others (s).
            opening_s: for which their next step has waited already (s).
        """
        slice_s = self.slice_s(step_s)
        if opening_s and slice_s <= opening_s:
            return
        until = time.perf_counter() + slice_s - opening_s - self._overrun_s
        while self.leaving and self._slices.run(until) and not self._slices.is_over(until):
            pass
        self._overrun_s = max(0.0, time.perf_counter() - until) if self.leaving else 0.0

    def slice_s(self, step_s: float) -> float:
        """Say how long the others wait for it at a step that takes so long (s)."""
        usual = self._activities.decoding_s
        each_s = (usual.get(slot.ticket.runner.model.name, 0.0) for slot in self.leaving)
        usual_s = max(each_s, default=0.0)
        return len(self.leaving) * max(SHARE_ASIDE * step_s, usual_s / MOST_SLICES)

    def finish(self) -> None:
        """Decode what is left of all of them."""
        while self.leaving:
            self._slices.run(None)
        self._overrun_s = 0.0

    def clear(self) -> None:
        """Let go of all of them."""
        self._slices.clear()
        self.leaving.clear()
