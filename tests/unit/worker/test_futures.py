import gc
import weakref
from concurrent.futures import Future

import pytest

from worker.futures import failed, resolve, resolved, tried


def test_a_future_gets_what_a_call_gives() -> None:
    future: Future[int] = Future()
    resolve(future, lambda: 7)
    assert future.result(0) == 7


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
def test_whoever_waits_hears_of_whatever_a_call_raises(error: BaseException) -> None:
    def fail() -> None:
        raise error

    future: Future[None] = Future()
    resolve(future, fail)
    assert future.exception(0) is error


def test_what_is_known_needs_no_waiting() -> None:
    assert resolved("here").result(0) == "here"
    error = ValueError("no")
    assert failed(error).exception(0) is error


def test_what_a_call_gives_or_raises_is_a_value() -> None:
    assert tried(lambda: 7) == 7
    error = ValueError("no")

    def fail() -> int:
        raise error

    assert tried(fail) is error


def test_an_error_that_a_future_has_keeps_nothing_alive_once_it_is_forgotten() -> None:
    class Held:
        pass

    def fail() -> None:
        held = Held()
        seen.append(weakref.ref(held))
        raise ValueError("no")

    seen: list[weakref.ref[Held]] = []
    gc.disable()
    try:
        future: Future[None] = Future()
        resolve(future, fail)
        del future
        assert seen[0]() is None
    finally:
        gc.enable()
