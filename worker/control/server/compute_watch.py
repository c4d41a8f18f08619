"""Notice that the device of a ControlNet worker hangs, by the limits that its own calls have set.

Base workers leave after a minute without an answer; the worker itself serves nobody before it ends.
"""

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from core.log import get_logger, log_errors
from worker.awake_clock import Lasting
from worker.engine.step_limits import StepLimits
from worker.engine.watchdog import LOOK_S, frames_of

log = get_logger(__name__)

#: What a call takes on an accelerator, as far as nobody has seen the like: a minute is a hang.
EXPECTED_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Computing:
    """One call of a ControlNet."""

    key: Hashable  #: of those that take as long
    controlnet: str


class ComputeWatch:
    """Looks at what one thread computes: `computing` belongs to that one, `look` to another."""

    def __init__(
        self,
        thread: str,
        *,
        least_s: float,
        expected_s: float | None,
        on_hang: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; no call of the thread of this name is limited to less than `least_s`.

        `expected_s`: of one whose like nobody has seen; None: nobody can say.
        """
        self._thread_name = thread
        self._limits, self._expected_s = StepLimits(least_s), expected_s
        self._on_hang = on_hang
        self._clock = clock
        self._lasting = Lasting(2 * LOOK_S)
        self._computing: Computing | None = None
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="compute-watch", daemon=True)

    @contextmanager
    def computing(self, controlnet: str, key: Hashable) -> Iterator[None]:
        """Be known to compute; whoever has the same key takes as long."""
        begun_at = self._clock()
        self._computing = Computing(key=key, controlnet=controlnet)
        try:
            yield
            self._limits.note(key, self._clock() - begun_at)
        finally:
            self._computing = None

    def note_progress(self) -> None:
        """Note that a part of the call is there: it takes its time, and does not hang."""
        if self._computing is not None:
            self._computing = replace(self._computing)

    def look(self) -> None:
        """Look once: is it still at what it was at for too long?"""
        computing = self._computing
        seconds = self._lasting.look(self._clock(), computing)
        if computing is None:
            return
        limit_s = self._limits.limit_s(computing.key, self._expected_s, is_compiled=False)
        if seconds > limit_s:
            try:
                log.critical(
                    "controlnet_hangs",
                    controlnet=computing.controlnet,
                    seconds=round(seconds, 1),
                    limit_s=round(limit_s, 1),
                    at=frames_of(self._thread_name),
                )
            finally:  # on a disk without space too
                self._on_hang()

    def start(self) -> None:
        """Look from a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._is_closed.set()

    def _run(self) -> None:
        while not self._is_closed.wait(LOOK_S):
            with log_errors(log, "watch_failed"):
                self.look()
