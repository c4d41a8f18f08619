"""Decode images in a thread beside the steps of others, where these take one core of several."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from worker.diffusion.runner import Pixels
from worker.engine.faults import Fault
from worker.engine.slot import Slot, alone
from worker.engine.stats import DECODING, Activities, Activity

#: Of the thread that decodes.
THREAD = "decoder"
#: Steps that others take without an image whose turn it is; then they wait for it.
MOST_STEPS = 8

Decoded = Pixels | Fault


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
    _begun: deque[_Begun] = field(default_factory=deque)
    _pool: ThreadPoolExecutor | None = None  #: one thread, begun with the first image
    _missed: int = 0  #: steps that others took while the first of them was decoded

    @property
    def leaving(self) -> Sequence[Slot]:
        """The latents that are decoded."""
        return [each.slot for each in self._begun]

    def add(
        self, slot: Slot, decode: Callable[[], Decoded], done: Callable[[Slot, Decoded], object]
    ) -> None:
        """Decode one more, after the others; `done` hears what has become of it."""
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix=THREAD)
        made = self._pool.submit(_timed, decode)
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
        decoded, seconds = first.made.result()
        self._activities.note_decoding(first.activity.model.name, seconds)
        self._activities.on_done(first.activity, seconds)
        first.done(first.slot, decoded)


def _timed(decode: Callable[[], Decoded]) -> tuple[Decoded, float]:
    """Time what this thread computes: a core that it shares makes it take longer."""
    began = time.thread_time()
    decoded = decode()
    return decoded, time.thread_time() - began
