"""Decode images beside the steps of others: in slices between them, or by a thread of its own.

In slices the steps of a device are held up least; a thread computes on a core of the host.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from worker.diffusion.runner import Pixels
from worker.diffusion.slices import Slices
from worker.engine.batch import MOST_SLICES, SHARE_ASIDE
from worker.engine.faults import Fault
from worker.engine.slot import Slot, alone
from worker.engine.stats import DECODING, Activities, Activity

#: Of the thread that decodes.
THREAD = "decoder"
#: Steps that others take without an image that it has begun; then they wait for it.
MOST_STEPS = 8

Made = TypeVar("Made")
Decoded = Pixels | Fault


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


@dataclass(slots=True, kw_only=True, eq=False)
class _Begun:
    """One image that is decoded, or is to be once those before it are."""

    slot: Slot
    activity: Activity
    made: "Future[tuple[Decoded, float]]"  #: and how long it took (s)
    done: Callable[[Slot, Decoded], object]


@dataclass(slots=True, eq=False)
class FreeDecoding:
    """Decodes one image after the other, beside whatever the engine does. Belongs to its thread.

    Where no core is spare its thread shares one with the steps: they take longer, but nobody's work
    is more, and who is nearest to its end gets there first.
    """

    _activities: Activities
    leaving: list[Slot] = field(default_factory=list)  #: latents that are decoded
    _begun: deque[_Begun] = field(default_factory=deque)
    _pool: ThreadPoolExecutor | None = None  #: one thread, begun with the first image
    _missed: int = 0  #: steps that others took while the first of them was decoded

    def add(
        self, slot: Slot, decode: Callable[[], Decoded], done: Callable[[Slot, Decoded], object]
    ) -> None:
        """Decode one more, after the others; `done` hears what has become of it."""
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix=THREAD)
        made = self._pool.submit(_timed, decode)
        self.leaving.append(slot)
        self._begun.append(_Begun(slot=slot, activity=alone(DECODING, slot), made=made, done=done))

    def settle(self) -> None:
        """Hand over what is decoded, before a step of others."""
        while self._begun and (self._begun[0].made.done() or self._missed >= MOST_STEPS):
            self._hand_over()
        self._missed += bool(self._begun)

    def finish(self) -> None:
        """Wait for all of them."""
        while self._begun:
            self._hand_over()

    def clear(self) -> None:
        """Let go of all of them."""
        self._begun.clear()
        self.leaving.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = None

    def _hand_over(self) -> None:
        """Wait for the first, as is seen from outside, and say what has become of it."""
        first, self._missed = self._begun[0], 0
        self._activities.now = first.activity
        try:
            wait([first.made])
        finally:
            self._activities.now = None
        self._begun.popleft()
        self.leaving.remove(first.slot)
        decoded, seconds = first.made.result()
        self._activities.note_decoding(first.activity.model.name, seconds)
        self._activities.on_done(first.activity, seconds)
        first.done(first.slot, decoded)


def _timed(decode: Callable[[], Decoded]) -> tuple[Decoded, float]:
    """Time what this thread computes: a core that it shares makes it take longer."""
    began = time.thread_time()
    decoded = decode()
    return decoded, time.thread_time() - began
