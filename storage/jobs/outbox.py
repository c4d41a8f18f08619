"""Webhook outbox: written by the scripts that end jobs, delivered by upkeep."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from redis.asyncio import Redis

from storage.redis.connect import ask
from storage.redis.keys import DEAD, OUTBOX, delivery_key
from storage.redis.script import call, load

SETTLE_S = 60.0  #: a delivery handed out and not settled in this time is handed out again


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One webhook to send."""

    id: str  #: the `webhook-id`: stays the same over retries and replays
    job_id: str
    url: str
    event: str  #: `started`, `progress` or `completed`
    attempt: int  #: counts from 1; handed out and never settled does not count
    body: str  #: JSON: the event's own data, such as the status; the job itself is read when sent
    #: when it is handed out again if nobody settles it (ms of the store's clock); 0: unknown
    again_ms: int = 0


class Deliveries(Protocol):
    """What upkeep asks of an outbox."""

    async def due(self, now: float | None = None, limit: int = 100) -> list[Delivery]:
        """Take what is due by `now` (epoch s; None: the store's clock); settle it in a minute."""

    async def current(self, deliveries: Sequence[Delivery]) -> set[str]:
        """Tell which of those handed out are neither settled nor handed out again, by id."""

    async def done(self, delivery_id: str, outcome: str = "delivered") -> bool:
        """Forget a delivery that was made, or needs none; `outcome` is counted."""

    async def retry(self, delivery_id: str, wait_s: float) -> bool:
        """Try again after so long, by the store's clock."""

    async def dead(self, delivery_id: str) -> bool:
        """Give up; it is kept for a week, to be replayed by hand."""

    async def list_dead(self, limit: int = 100, first: int = 0) -> list[Delivery]:
        """Read what was given up, latest first, from so many on."""

    async def get_dead(self, delivery_id: str) -> Delivery | None:
        """Read one that was given up; None: it was not, or longer ago than it is kept."""

    async def replay(self, delivery_id: str) -> bool:
        """Send a dead delivery again, as if for the first time; False: it is not dead."""


class Outbox:
    """Deliveries in Redis, each made at least once; several deliverers may share it."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def due(self, now: float | None = None, limit: int = 100) -> list[Delivery]:
        """Take what is due by `now` (epoch s; None: the store's clock); settle it in a minute."""
        at_ms = 0 if now is None else int(now * 1000)
        rows = await call(self._redis, load("due"), at_ms, limit, int(SETTLE_S * 1000))
        return [_read(*row) for row in rows]

    async def current(self, deliveries: Sequence[Delivery]) -> set[str]:
        """Tell which of those handed out are neither settled nor handed out again, by id."""
        if not deliveries:
            return set()
        scores = await ask(self._redis, "ZMSCORE", OUTBOX, *(each.id for each in deliveries))
        return {
            each.id
            for each, again_ms in zip(deliveries, scores, strict=True)
            if again_ms is not None and each.again_ms in (0, int(again_ms))
        }

    async def done(self, delivery_id: str, outcome: str = "delivered") -> bool:
        """Forget a delivery that was made, or needs none; `outcome` is counted."""
        return await self._settle(delivery_id, "done", outcome)

    async def retry(self, delivery_id: str, wait_s: float) -> bool:
        """Try again after so long, by the store's clock."""
        return await self._settle(delivery_id, "retry", "retried", int(wait_s * 1000))

    async def dead(self, delivery_id: str) -> bool:
        """Give up; it is kept for a week, to be replayed by hand."""
        return await self._settle(delivery_id, "dead", "dead")

    async def list_dead(self, limit: int = 100, first: int = 0) -> list[Delivery]:
        """Read what was given up, latest first, from so many on."""
        names = await ask(self._redis, "ZREVRANGE", DEAD, first, first + limit - 1)
        found = [await self._read(name) for name in names]
        return [delivery for delivery in found if delivery is not None]

    async def get_dead(self, delivery_id: str) -> Delivery | None:
        """Read one that was given up; None: it was not, or longer ago than it is kept."""
        if await ask(self._redis, "ZSCORE", DEAD, delivery_id) is None:
            return None
        return await self._read(delivery_id.encode())

    async def replay(self, delivery_id: str) -> bool:
        """Send a dead delivery again, as if for the first time; False: it is not dead."""
        return await self._settle(delivery_id, "replay", "replayed")

    async def _read(self, name: bytes) -> Delivery | None:
        fields = ("job", "url", "event", "attempt", "body")
        row = await ask(self._redis, "HMGET", delivery_key(name.decode()), *fields)
        return _read(name, *row) if row[0] is not None else None

    async def _settle(self, delivery_id: str, wish: str, outcome: str, wait_ms: int = 0) -> bool:
        return bool(await call(self._redis, load("settle"), delivery_id, wish, outcome, wait_ms))


def _read(
    name: bytes, job: bytes, url: bytes, event: bytes, attempt: int, body: bytes, again: int = 0
) -> Delivery:
    return Delivery(
        id=name.decode(),
        job_id=job.decode(),
        url=url.decode(),
        event=event.decode(),
        attempt=int(attempt),
        body=body.decode(),
        again_ms=int(again),
    )
