"""Count reads of initial latents, and how many of them were in time."""

import threading
import time
from concurrent.futures import Future

from core.errors import Unavailable
from worker.diffusion.runner import JobInputs
from worker.engine import metrics
from worker.jobs.patience import within


class Starts:
    """Reads of latents since this worker started."""

    def __init__(self) -> None:
        self.read = 0  #: asked for, and answered or given up
        self.late = 0  #: of these, not answered in time, or by an error of the store
        self._lock = threading.Lock()

    def in_time(
        self, budget_s: float, asked: "Future[JobInputs | None]"
    ) -> "Future[JobInputs | None]":
        """Give what is asked for, or None once that is too late, and count which it was."""
        began = time.perf_counter()
        answer: Future[JobInputs | None] = within(budget_s, asked, None)
        answer.add_done_callback(lambda _: self._count(asked, time.perf_counter() - began))
        return answer

    def _count(self, asked: "Future[JobInputs | None]", read_s: float) -> None:
        error = asked.exception() if asked.done() else TimeoutError()
        with self._lock:
            self.read += 1
            self.late += isinstance(error, Unavailable | TimeoutError)
        metrics.observe_start(read_s, is_there=error is None)
