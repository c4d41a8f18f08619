"""Wait for calls that their place may fail: ask again where it has, or do without in time."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from core.errors import ProcessLost, Unavailable
from core.log import get_logger

T = TypeVar("T")
log = get_logger(__name__)

#: Pauses between two calls double from the first to the longest; half of each is random.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.4, 5.0

#: What calls raise that their place has failed, whatever they ask for: a process is lost, or a
#: store is away.
PlaceFailed = Unavailable | ProcessLost
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
        elif isinstance(error, PlaceFailed):
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


def within(budget_s: float, asked: "Future[T]", otherwise: T) -> "Future[T]":
    """Give what is asked for, or something else if that is an error or is not there in time.

    Its callbacks run in the thread that answers, or in one of their own once it is late.
    """
    answer: Future[T] = Future()
    timer = threading.Timer(budget_s, partial(_settle, answer, otherwise))
    timer.daemon = True
    timer.start()
    asked.add_done_callback(partial(_receive, answer, timer, otherwise))
    return answer


def _receive(answer: "Future[T]", timer: threading.Timer, otherwise: T, asked: "Future[T]") -> None:
    timer.cancel()
    error = asked.exception()
    if error is not None:
        log.warning("done_without", reason=f"{type(error).__name__}: {error}")
    _settle(answer, otherwise if error is not None else asked.result())


def _settle(answer: "Future[T]", value: T) -> None:
    with suppress(InvalidStateError):  # the first of the two counts
        answer.set_result(value)
