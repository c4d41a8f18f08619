"""Hold bodies that may go to several cells: bounded in bytes and time, and all together.

Whoever sends one may have no key: cells look at those.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Final

from aiohttp import web

from core.bodies.incoming import BodyClock, HeldBytes
from core.errors import TooLarge

#: Bytes of all bodies that a router holds: a quarter of the memory that it is deployed with.
MAX_HELD_BYTES: Final = 256 * 2**20


class BodyHolder:
    """Reads bodies whole."""

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self.held = HeldBytes(MAX_HELD_BYTES, max_body_bytes)

    @asynccontextmanager
    async def read(self, request: web.Request) -> AsyncIterator[bytes]:
        """Read a body; it counts as held until the block is left.

        Raises: TooLarge, TooSlow; TooManyRequests while others' bodies fill the memory for them.
        """
        client, clock, body = request.remote or "", BodyClock(), BytesIO()
        self._check(request.content_length or 0)
        try:
            while part := await clock.wait_for(request.content.readany()):
                clock.add(len(part))
                self._check(body.tell() + len(part))
                self.held.hold(client, len(part))
                body.write(part)
            yield body.getvalue()
        finally:
            self.held.release(client, body.tell())

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self._max_body_bytes:
            raise TooLarge(f"the body may have at most {self._max_body_bytes} bytes")
