from concurrent.futures import Future

import pytest

from worker.futures import failed, resolve, resolved


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
