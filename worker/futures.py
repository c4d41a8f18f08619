"""Take what a call raises for a value: of a future that somebody waits for, or as it is."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def tried(call: Callable[[], T]) -> T | Exception:
    """Give what a call returns, or raises: whoever calls goes on either way."""
    try:
        return call()
    except Exception as error:  # of models, files, stores: the caller says whom it fails
        return error


def resolve(future: "Future[T]", call: Callable[[], T]) -> None:
    """Give a future what a call returns, or whatever it raises."""
    try:
        result = call()
    except BaseException as error:  # whatever it is, somebody waits for this future
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        del future, call  # the error knows this frame, and must not keep itself alive by it


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
