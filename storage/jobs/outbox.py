"""Webhook outbox: written by the scripts that end jobs, delivered by upkeep."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from redis.asyncio import Redis

from storage.redis.connect import ask, converting_errors
from storage.redis.index import ids_after, write_cursor
from storage.redis.keys import OUTBOX, dead_key, delivery_key
from storage.redis.script import call, load

SETTLE_S = 60.0  #: a delivery handed out and not settled in this time is handed out again
MAX_DEAD = 10_000  #: kept of what was given up of one tenant; the oldest go first
MAX_PENDING = 100_000  #: of one tenant to be made, now or again; the oldest are given up
FIELDS = ("job", "url", "event", "attempt", "body", "tenant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One webhook to send."""

    id: str  #: the `webhook-id`: stays the same over retries and replays
    job_id: str
    tenant: str = ""  #: empty: an older version posted it
    url: str
    event: str  #: `started`, `progress` or `completed`
    attempt: int  #: counts from 1; handed out and never settled does not count
    body: str  #: JSON: the event's own data, such as the status; the job itself is read when sent
    #: when it is handed out again if nobody settles it (ms of the store's clock); 0: unknown
    again_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadDelivery:
    """A delivery that was given up."""

    delivery: Delivery
    at: float  #: when it was given up (epoch s, the store's clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadPage:
    """Some deliveries of one tenant that were given up, the latest first."""

    dead: tuple[DeadDelivery, ...]
    cursor: str | None  #: pass it to get what follows; None: nothing follows


class Deliveries(Protocol):
    """What upkeep asks of an outbox."""

    async def trim(self) -> None:
        """Give up some of the oldest deliveries of tenants that have too many to be made."""

    async def due(self, now: float | None = None, limit: int = 100) -> list[Delivery]:
        """Take what is due by `now` (epoch s; None: the store's clock); settle it in a minute."""

    async def current(self, deliveries: Sequence[Delivery]) -> set[str]:
        """Tell which of those handed out are neither settled nor handed out again, by id."""

    async def done(self, delivery_id: str, outcome: str = "delivered") -> bool:
        """Forget a delivery that was made, or needs none; `outcome` is counted."""

    async def retry(self, delivery: Delivery, wait_s: float) -> bool:
        """Try again after so long, by the store's clock; an attempt counts once."""

    async def dead(self, delivery_id: str) -> bool:
        """Give up; it is kept for a week, to be replayed by hand, unless too many follow."""

    async def list_dead(
        self, tenant: str, *, limit: int = 20, cursor: str | None = None
    ) -> DeadPage:
        """Read what was given up of one tenant, latest first; a page may be short."""

    async def get_dead(self, delivery_id: str, tenant: str) -> Delivery | None:
        """Read one of a tenant's that was given up; None: it was not, or is kept no more."""

    async def replay(self, delivery_id: str) -> bool:
        """Send a dead delivery again, as if for the first time; False: it is not dead."""


class Outbox:
    """Deliveries in Redis, each made at least once; several deliverers may share it."""

    def __init__(
        self, redis: Redis, *, max_dead: int = MAX_DEAD, max_pending: int = MAX_PENDING
    ) -> None:
        """Keep so many of one tenant: of what was given up, and of what is to be made."""
        self._redis = redis
        self._max_dead = max_dead
        self._max_pending = max_pending

    async def trim(self) -> None:
        """Give up some of the oldest deliveries of tenants that have too many to be made."""
        await call(self._redis, load("trim"), self._max_pending, self._max_dead)

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

    async def retry(self, delivery: Delivery, wait_s: float) -> bool:
        """Try again after so long, by the store's clock; an attempt counts once."""
        wait_ms = int(wait_s * 1000)
        return await self._settle(delivery.id, "retry", "retried", wait_ms, delivery.attempt)

    async def dead(self, delivery_id: str) -> bool:
        """Give up; it is kept for a week, to be replayed by hand, unless too many follow."""
        return await self._settle(delivery_id, "dead", "dead")

    async def list_dead(
        self, tenant: str, *, limit: int = 20, cursor: str | None = None
    ) -> DeadPage:
        """Read what was given up of one tenant, latest first; a page may be short.

        What is kept no more is still in its index until something else is given up.
        """
        found = await ids_after(self._redis, dead_key(tenant), cursor, limit + 1)
        page = found[:limit]
        deliveries = await self._read_all([name for name, _ in page])
        dead = tuple(
            DeadDelivery(delivery=delivery, at=at_ms / 1e3)
            for (_, at_ms), delivery in zip(page, deliveries, strict=True)
            if delivery is not None
        )
        more = len(found) > limit
        return DeadPage(dead=dead, cursor=write_cursor(page[-1][1], page[-1][0]) if more else None)

    async def get_dead(self, delivery_id: str, tenant: str) -> Delivery | None:
        """Read one of a tenant's that was given up; None: it was not, or is kept no more."""
        if await ask(self._redis, "ZSCORE", dead_key(tenant), delivery_id) is None:
            return None
        return (await self._read_all([delivery_id]))[0]

    async def replay(self, delivery_id: str) -> bool:
        """Send a dead delivery again, as if for the first time; False: it is not dead."""
        return await self._settle(delivery_id, "replay", "replayed")

    async def _read_all(self, names: Sequence[str]) -> list[Delivery | None]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.execute_command("HMGET", delivery_key(name), *FIELDS)
            with converting_errors():
                rows = await pipe.execute()
        return [
            _read(name.encode(), *row) if row[0] is not None else None
            for name, row in zip(names, rows, strict=True)
        ]

    async def _settle(
        self, delivery_id: str, wish: str, outcome: str, wait_ms: int = 0, attempt: int = 0
    ) -> bool:
        args = (delivery_id, wish, outcome, wait_ms, self._max_dead, attempt)
        return bool(await call(self._redis, load("settle"), *args))


def _read(
    name: bytes,
    job: bytes,
    url: bytes,
    event: bytes,
    attempt: int,
    body: bytes,
    tenant: bytes | None,
    again: int = 0,
) -> Delivery:
    return Delivery(
        id=name.decode(),
        job_id=job.decode(),
        tenant=(tenant or b"").decode(),
        url=url.decode(),
        event=event.decode(),
        attempt=int(attempt),
        body=body.decode(),
        again_ms=int(again),
    )
