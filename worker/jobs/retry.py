"""Make a call again that failed through no fault of its job: later and later, until it may not."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from core.errors import ProcessLost, Unavailable
from core.log import get_logger

T = TypeVar("T")
log = get_logger(__name__)

#: Pauses between two calls double from the first to the longest; half of each is random.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.4, 5.0

#: Given why the last call failed, says why there must not be another; None: there may.
End = Callable[[Exception], Exception | None]


def persist(asked: "Future[T]", ask: "Callable[[], Future[T]]", end: End) -> "Future[T]":
    """Wait for a call; where the place has failed it, not the job, `ask` again until `end`.

    Raises: nothing; the future gets what the call raises on the job's account, or `end` gives.
    """
    trials = _Trials(ask=ask, end=end)
    asked.add_done_callback(trials.receive)
    return trials.answer


@dataclass(slots=True, kw_only=True, eq=False)
class _Trials(Generic[T]):
    """One call, however often it is made."""

    ask: "Callable[[], Future[T]]"
    end: End
    answer: "Future[T]" = field(default_factory=Future)
    pause_s: float = FIRST_PAUSE_S

    def receive(self, asked: "Future[T]") -> None:
        error = asked.exception()
        if error is None:
            self.answer.set_result(asked.result())
        elif isinstance(error, Unavailable | ProcessLost):
            self._wait(error)
        else:
            self.answer.set_exception(error)

    def _wait(self, error: Exception) -> None:
        if (reason := self.end(error)) is not None:
            self.answer.set_exception(reason)
            return
        log.warning("asked_again", reason=f"{type(error).__name__}: {error}")
        timer = threading.Timer(self.pause_s * random.uniform(0.5, 1.0), self._again, [error])
        self.pause_s = min(2 * self.pause_s, LONGEST_PAUSE_S)
        timer.daemon = True
        timer.start()

    def _again(self, error: Exception) -> None:
        if (reason := self.end(error)) is not None:
            self.answer.set_exception(reason)
        else:
            self.ask().add_done_callback(self.receive)
