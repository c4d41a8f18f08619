"""The last hour of the service in samples: one capped Redis stream, written by the leader."""

import builtins
from dataclasses import replace
from typing import Final, Protocol

from redis.asyncio import Redis

from core.boards.sample import ServiceSample
from core.codec import decode, encode
from storage.redis.connect import ask
from storage.redis.keys import HISTORY

EVERY_S: Final = 30.0  #: between two samples
MAX_SAMPLES: Final = 121  #: an hour of them; the oldest go


class ServiceHistory(Protocol):
    """What is asked of the samples."""

    async def add(self, sample: ServiceSample) -> None:
        """Keep a sample; the store notes when."""

    async def list(self) -> builtins.list[ServiceSample]:
        """Read all that are kept, oldest first."""

    async def last(self) -> ServiceSample | None:
        """Read the last one."""


class HistoryBoard:
    """Samples in one Redis stream."""

    def __init__(self, redis: Redis, *, max_samples: int = MAX_SAMPLES) -> None:
        self._redis = redis
        self._max_samples = max_samples

    async def add(self, sample: ServiceSample) -> None:
        """Keep a sample; the store notes when."""
        cap = ("MAXLEN", self._max_samples)
        await ask(self._redis, "XADD", HISTORY, *cap, "*", "sample", encode(sample))

    async def list(self) -> builtins.list[ServiceSample]:
        """Read all that are kept, oldest first."""
        rows = await ask(self._redis, "XRANGE", HISTORY, "-", "+")
        return [_read(*row) for row in rows]

    async def last(self) -> ServiceSample | None:
        """Read the last one."""
        rows = await ask(self._redis, "XREVRANGE", HISTORY, "+", "-", "COUNT", 1)
        return _read(*rows[0]) if rows else None


def _read(entry_id: bytes, fields: dict[bytes, bytes]) -> ServiceSample:
    at_ms = int(entry_id.partition(b"-")[0])
    return replace(decode(fields[b"sample"], ServiceSample), at=at_ms / 1e3)
