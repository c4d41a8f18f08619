"""Await an optional result within a time budget, else return a default."""

import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import TypeVar

from core.log import get_logger

T = TypeVar("T")
log = get_logger(__name__)


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
