"""Hold bodies that may go to several cells: bounded in bytes and time, and all together.

Whoever sends one may have no key: cells look at those.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from core.bodies.incoming import BodyClock, HeldBytes
from core.errors import TooLarge

#: Bytes of all bodies that a router holds: a quarter of the memory that it is deployed with.
MAX_HELD_BYTES: Final = 256 * 2**20
#: Bytes of one that are on their way at a time: whole, a connection would hold it again.
PART_BYTES: Final = 64 * 2**10


class HeldBody:
    """A body in memory, until a cell has it: who waits for images by it waits for minutes."""

    def __init__(self, held: HeldBytes, client: str) -> None:
        self.data = bytearray()
        self._held = held
        self._client = client

    def add(self, part: bytes) -> None:
        """Hold what has come. Raises: TooManyRequests."""
        self._held.hold(self._client, len(part))
        self.data += part

    def parts(self) -> AsyncIterator[bytes] | None:
        """Read it out, all of it though it is let go meanwhile; None if there is nothing."""
        return _parts(self.data) if self.data else None

    async def given_away(self) -> AsyncIterator[bytes]:
        """Read it out; once all of it is taken there is nothing left."""
        async for part in _parts(self.data):
            yield part
        self.let_go()

    def let_go(self) -> None:
        """Hold nothing more."""
        self._held.release(self._client, len(self.data))
        self.data = bytearray()


class BodyHolder:
    """Reads bodies whole."""

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self.held = HeldBytes(MAX_HELD_BYTES, max_body_bytes)

    @asynccontextmanager
    async def read(self, request: web.Request) -> AsyncIterator[HeldBody]:
        """Read a body, which is held until the block is left or all of it is given away.

        Raises: TooLarge, TooSlow; TooManyRequests while others' bodies fill the memory for them.
        """
        clock, body = BodyClock(), HeldBody(self.held, request.remote or "")
        self._check(request.content_length or 0)
        try:
            while part := await clock.wait_for(request.content.readany()):
                clock.add(len(part))
                self._check(len(body.data) + len(part))
                body.add(part)
            yield body
        finally:
            body.let_go()

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self._max_body_bytes:
            raise TooLarge(f"the body may have at most {self._max_body_bytes} bytes")


async def _parts(data: bytearray) -> AsyncIterator[bytes]:
    for at in range(0, len(data), PART_BYTES):
        yield bytes(data[at : at + PART_BYTES])
