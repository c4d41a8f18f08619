"""Resolve futures: with what a call gives or raises, or at once."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def resolve(future: "Future[T]", call: Callable[[], T]) -> None:
    """Give a future what a call returns, or whatever it raises."""
    try:
        result = call()
    except BaseException as error:  # whatever it is, somebody waits for this future
        future.set_exception(error)
    else:
        future.set_result(result)


def resolved(result: T) -> "Future[T]":
    """Make a future that has its result."""
    future: Future[T] = Future()
    future.set_result(result)
    return future


def failed(error: BaseException) -> "Future[T]":
    """Make a future that has failed."""
    future: Future[T] = Future()
    future.set_exception(error)
    return future
