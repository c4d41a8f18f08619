"""The client for programs that wait: each call blocks its thread."""

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import httpx

from atelier_client.exchange.endpoints import Threaded
from atelier_client.exchange.flows import repeating
from atelier_client.exchange.following import Lines
from atelier_client.exchange.settings import ClientSettings, answer_of
from atelier_client.exchange.steps import (
    Answer,
    Call,
    Flow,
    Give,
    Heard,
    Lost,
    NextLine,
    Open,
    Pause,
    Source,
    Step,
)
from atelier_client.resources.all import Resources

T = TypeVar("T")

PIECE_BYTES = 2**18


class Client(Resources[Threaded]):
    """One service, asked over HTTP. Threads may share it."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        cell: str | None = None,
        timeout_s: float = 30.0,
        max_retries: int = 2,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Ask the service at `url`, else at ATELIER_URL, with `key`, else ATELIER_API_KEY.

        Of several cells, what is about one of them is asked of `cell`, else ATELIER_ASK_CELL.

        Raises:
            ClientError: no header can carry the key, or the name of the cell.
        """
        settings = ClientSettings.of(url, key, cell, timeout_s=timeout_s, max_retries=max_retries)
        self._transport = ThreadedTransport(settings, transport)
        super().__init__(self._transport)

    def close(self) -> None:
        """Close the connections."""
        self._transport.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class ThreadedTransport:
    """Runs flows: what they ask goes out, what came of it goes in."""

    def __init__(self, settings: ClientSettings, transport: httpx.BaseTransport | None) -> None:
        self._settings = settings
        self.http = httpx.Client(**settings.http(), transport=transport)

    def run(self, flow: Flow[T]) -> T:
        """Run a flow to its end."""
        flow = repeating(flow, self._settings.retries, random.random)
        heard: Heard = None
        while True:
            try:
                step = flow.send(heard)
            except StopIteration as end:
                result: T = end.value
                return result
            heard = self._take(step)

    def iterate(self, source: Source[T]) -> Iterator[T]:
        """Run a source; whoever stops iterating closes its connection."""
        source = repeating(source, self._settings.retries, random.random)
        heard: Heard = None
        with ExitStack() as opened:
            lines: Iterator[str] = iter(())
            while True:
                try:
                    step = source.send(heard)
                except StopIteration:
                    return
                match step:
                    case Give():
                        yield step.value
                        heard = None
                    case Open():
                        opened.close()
                        heard, lines = self._open(step.call, opened)
                    case NextLine():
                        heard = self._next_line(lines)
                    case _:
                        heard = self._take(step)

    def _take(self, step: Step) -> Heard:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        asked = self._settings.request(step)
        try:
            response = self.http.request(
                **asked, content=_content(step.content), follow_redirects=step.is_signed
            )
        except httpx.RequestError as error:
            return self._settings.lost(error)
        return answer_of(response, response.content)

    def _open(self, call: Call, opened: ExitStack) -> tuple[Answer | Lost, Iterator[str]]:
        try:
            response = opened.enter_context(self.http.stream(**self._settings.request(call)))
            body = b"" if response.is_success else response.read()
        except httpx.RequestError as error:
            return self._settings.lost(error), iter(())
        return answer_of(response, body), _lines(response)

    def _next_line(self, lines: Iterator[str]) -> str | Lost | None:
        try:
            return next(lines, None)
        except httpx.RequestError as error:
            return self._settings.lost(error)


def _lines(response: httpx.Response) -> Iterator[str]:
    lines = Lines()
    for text in response.iter_text():
        yield from lines.feed(text)


def _content(content: bytes | Path | None) -> bytes | Iterator[bytes] | None:
    return _pieces(content) if isinstance(content, Path) else content


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
