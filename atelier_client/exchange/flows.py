"""Flows that all others are made of: ask, repeat, remember the answer, page by page. Pure."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from atelier_client.decoding import decode
from atelier_client.errors import NoAnswer, error_of
from atelier_client.exchange.retries import Retries, retry_after_s
from atelier_client.exchange.steps import (
    Answer,
    Call,
    Flow,
    Give,
    Heard,
    Lost,
    Pause,
    Source,
    Step,
)

T = TypeVar("T")
S = TypeVar("S")
T_co = TypeVar("T_co", covariant=True)


class Paged(Protocol[T_co]):
    """One page of a list."""

    @property
    def data(self) -> tuple[T_co, ...]: ...
    @property
    def cursor(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """What the service wrote last, and what is read of it."""

    body: bytes
    value: T


def ask(call: Call, answer: type[T]) -> Flow[T]:
    """Ask once and read the answer.

    Raises:
        NoAnswer: there is none, or none of an Atelier service.
        ProblemError: it is no.
    """
    return read((yield from heard_of(call)).body, answer)


def heard_of(call: Call) -> Flow[Answer]:
    """Ask once for what is read as it is; raises as `ask`."""
    return checked((yield call))


def checked(heard: Heard) -> Answer:
    """Take an answer that is a success; raises as `ask`."""
    if isinstance(heard, Lost):
        raise NoAnswer(heard.reason)
    assert isinstance(heard, Answer), heard
    if not 200 <= heard.status < 300:
        raise error_of(heard.status, heard.body, retry_after_s(heard))
    return heard


def read(body: bytes, answer: type[T]) -> T:
    """Read JSON; fields that are not known here are left out."""
    try:
        return decode(body, answer)
    except msgspec.DecodeError as error:
        raise NoAnswer(f"it does not answer like an Atelier service: {error}") from error


def repeating(
    flow: Generator[S, Heard, T], retries: Retries, random: Callable[[], float]
) -> Generator[S | Call | Pause, Heard, T]:
    """Run a flow, or a source, so that its calls are tried again where that is right."""
    heard: Heard = None
    while True:
        try:
            step = flow.send(heard)
        except StopIteration as end:
            result: T = end.value
            return result
        if isinstance(step, Call):
            heard = yield from _tried(step, retries, random)
        else:
            heard = yield step


def _tried(call: Call, retries: Retries, random: Callable[[], float]) -> Flow[Heard]:
    for attempt in retries.attempts():
        heard = yield call
        pause_s = retries.pause_s(call, heard, attempt, random())
        if pause_s is None:
            return heard
        yield Pause(pause_s)
    return (yield call)


def remembering(flow: Flow[T]) -> Flow[Reply[T]]:
    """Run a flow and return what was heard last beside what is made of it."""
    heard: Heard = None
    body = b""
    while True:
        try:
            step: Step = flow.send(heard)
        except StopIteration as end:
            return Reply(body, end.value)
        heard = yield step
        body = heard.body if isinstance(heard, Answer) else body


def all_of(read_page: Callable[[str | None], Flow[Any]]) -> Source[Any]:
    """Give everything that is listed, page by page."""
    cursor: str | None = None
    while True:
        page: Paged[Any] = yield from read_page(cursor)
        yield from _given(page)
        cursor = page.cursor
        if cursor is None:
            return


def _given(page: Paged[T]) -> Source[T]:
    for each in page.data:
        yield Give(each)
