"""The client for asyncio: each call is awaited, and may be cancelled."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import httpx

from atelier_client.exchange.endpoints import Awaited
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


class AsyncClient(Resources[Awaited]):
    """One service, asked over HTTP. Tasks of one event loop may share it."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        cell: str | None = None,
        timeout_s: float = 30.0,
        max_retries: int = 2,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Ask the service at `url`, else at ATELIER_URL, with `key`, else ATELIER_API_KEY.

        Of several cells, what is about one of them is asked of `cell`, else ATELIER_ASK_CELL.

        Raises:
            ClientError: no header can carry the key, or the name of the cell.
        """
        settings = ClientSettings.of(url, key, cell, timeout_s=timeout_s, max_retries=max_retries)
        self._transport = AwaitedTransport(settings, transport)
        super().__init__(self._transport)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class AwaitedTransport:
    """Runs flows: what they ask goes out, what came of it goes in."""

    def __init__(
        self, settings: ClientSettings, transport: httpx.AsyncBaseTransport | None
    ) -> None:
        self._settings = settings
        self.http = httpx.AsyncClient(**settings.http(), transport=transport)

    async def run(self, flow: Flow[T]) -> T:
        """Run a flow to its end."""
        flow = repeating(flow, self._settings.retries, random.random)
        heard: Heard = None
        while True:
            try:
                step = flow.send(heard)
            except StopIteration as end:
                result: T = end.value
                return result
            heard = await self._take(step)

    async def iterate(self, source: Source[T]) -> AsyncIterator[T]:
        """Run a source; whoever stops iterating closes its connection."""
        source = repeating(source, self._settings.retries, random.random)
        heard: Heard = None
        async with AsyncExitStack() as opened:
            lines: AsyncIterator[str] = _none()
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
                        await opened.aclose()
                        heard, lines = await self._open(step.call, opened)
                    case NextLine():
                        heard = await self._next_line(lines)
                    case _:
                        heard = await self._take(step)

    async def _take(self, step: Step) -> Heard:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        asked = self._settings.request(step)
        try:
            response = await self.http.request(
                **asked, content=_content(step.content), follow_redirects=step.is_signed
            )
        except httpx.RequestError as error:
            return self._settings.lost(error)
        return answer_of(response, response.content)

    async def _open(
        self, call: Call, opened: AsyncExitStack
    ) -> tuple[Answer | Lost, AsyncIterator[str]]:
        try:
            response = await opened.enter_async_context(
                self.http.stream(**self._settings.request(call))
            )
            body = b"" if response.is_success else await response.aread()
        except httpx.RequestError as error:
            return self._settings.lost(error), _none()
        return answer_of(response, body), _lines(response)

    async def _next_line(self, lines: AsyncIterator[str]) -> str | Lost | None:
        try:
            return await anext(lines, None)
        except httpx.RequestError as error:
            return self._settings.lost(error)


async def _lines(response: httpx.Response) -> AsyncIterator[str]:
    lines = Lines()
    async for text in response.aiter_text():
        for line in lines.feed(text):
            yield line


def _content(content: bytes | Path | None) -> bytes | AsyncIterator[bytes] | None:
    return _pieces(content) if isinstance(content, Path) else content


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece


async def _none() -> AsyncIterator[str]:
    return
    yield
