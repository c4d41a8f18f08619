"""Read the fleet by what changed since the last look, a page of reports at a time."""

import asyncio
import time
from collections.abc import Callable
from itertools import islice
from typing import Protocol

from redis.asyncio import Redis

from core.boards.fleet import FleetChange, Worker
from core.codec import decode
from storage.redis.script import call, load

PAGE = 500  #: reports of one answer: neither the store nor a reader is kept from others for long
SLICE = 40  #: reports that are understood before the event loop has its turn
#: Workers report once a second: with less patience than for two of them nobody would be there.
MIN_STALE_S = 2.0
#: All is read again so often: a store that came back without its last words may have counted anew.
AGAIN_S = 60.0


class FleetChanges(Protocol):
    """What a scheduler asks of the fleet."""

    async def look(self) -> FleetChange:
        """Say what changed since the last look; the first one tells of everybody."""


class FleetReader(FleetChanges):
    """Remembers the last report of each worker that is there; when it came is not read."""

    def __init__(
        self, redis: Redis, *, stale_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Know of nobody yet; who is silent for `stale_s` is not there."""
        self._redis = redis
        self._stale_ms = int(1000 * max(stale_s, MIN_STALE_S))
        self._clock = clock
        self._reports: dict[str, bytes] = {}  #: by worker
        self._unsaid: dict[str, Worker | None] = {}  #: what is new of each; None: it is gone
        self._epoch, self._number = b"", 0  #: of the last report that was read
        self._read_at_ms = 0  #: by the store's clock
        self._again_at = 0.0  #: by ours
        self._is_anew = False  #: all is being read
        self._unseen: set[str] = set()  #: who has not been met while it is

    async def look(self) -> FleetChange:
        """Say what changed since the last look; the first one tells of everybody.

        Raises:
            StoreUnavailable: what was read already comes with the next look.
        """
        if self._clock() >= self._again_at:
            self._again_at, self._epoch = self._clock() + AGAIN_S, b""
        while not await self._read_page():
            pass
        news, self._unsaid = self._unsaid, {}
        return FleetChange(
            workers=tuple(worker for worker in news.values() if worker is not None),
            gone=tuple(name for name, worker in news.items() if worker is None),
        )

    async def _read_page(self) -> bool:
        """Take in one answer; tell whether it was the last one."""
        known = (self._epoch, self._number, self._read_at_ms, self._stale_ms, PAGE)
        epoch, number, read_at_ms, names, documents, silent = await call(
            self._redis, load("changes"), *known
        )
        if epoch != self._epoch:
            self._is_anew, self._unseen, self._read_at_ms = True, set(self._reports), 0
        pairs = zip((name.decode() for name in names), documents, strict=True)
        for some in iter(lambda: list(islice(pairs, SLICE)), []):
            for name, document in some:
                self._take(name, document)
            await asyncio.sleep(0)
        self._epoch, self._number = epoch, number
        if not read_at_ms:
            return False
        for name in (*(name.decode() for name in silent), *self._unseen):
            self._drop(name)
        self._read_at_ms, self._is_anew, self._unseen = read_at_ms, False, set()
        return True

    def _take(self, name: str, document: bytes | None) -> None:
        self._unseen.discard(name)
        if document is None:
            self._drop(name)
        elif not self._is_anew or self._reports.get(name) != document:
            self._reports[name] = document
            self._unsaid[name] = decode(document, Worker)

    def _drop(self, name: str) -> None:
        if self._reports.pop(name, None) is not None:
            self._unsaid[name] = None
