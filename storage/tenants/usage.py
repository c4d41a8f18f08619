"""What tenants have used, day by day, and what they keep: counted by the scripts, read here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, Protocol

from redis.asyncio import Redis

from core.job import JobStatus
from core.tenants.limits import DAY_S
from storage.redis.connect import ask, converting_errors
from storage.redis.keys import account_key, open_key, usage_key

#: Days are counted from here, in UTC.
EPOCH: Final = date(1970, 1, 1)
#: Days for which it is kept.
KEPT_DAYS: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class DayUsage:
    """What one tenant has used on one day of UTC."""

    day: date
    images: int  #: of jobs that succeeded
    jobs: Mapping[JobStatus, int]  #: by how they ended
    device_s: Mapping[str, float]  #: by type of device
    images_asked: int  #: of jobs accepted that day, but for those that ended without


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What one tenant has now."""

    kept_bytes: int
    open_jobs: int


class TenantUsage(Protocol):
    """What the api asks of the accounts of tenants."""

    async def read(self, tenant: str, first: date, last: date) -> list[DayUsage]:
        """Read the days on which something was used, from `first` to `last`."""

    async def kept(self, tenant: str) -> Kept:
        """Tell what a tenant has now."""


class UsageStore:
    """Accounts in Redis; the scripts alone write them."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def read(self, tenant: str, first: date, last: date) -> list[DayUsage]:
        """Read the days on which something was used, from `first` to `last`."""
        days = days_of(first, last)
        async with self._redis.pipeline(transaction=False) as pipe:
            for day in days:
                pipe.execute_command("HGETALL", usage_key(tenant, number_of(day)))
            with converting_errors():
                rows = await pipe.execute() if days else []
        return [day_usage(day, _counts(row)) for day, row in zip(days, rows, strict=True) if row]

    async def kept(self, tenant: str) -> Kept:
        """Tell what a tenant has now."""
        kept = await ask(self._redis, "HGET", account_key(tenant), "bytes")
        open_jobs = await ask(self._redis, "SCARD", open_key(tenant))
        return Kept(kept_bytes=int(kept or 0), open_jobs=int(open_jobs))


def days_of(first: date, last: date) -> list[date]:
    """List the days from one to another, both of them too."""
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def number_of(day: date) -> int:
    """Count the days since the epoch."""
    return (day - EPOCH).days


def day_of(at: float) -> date:
    """Name the day of UTC of a moment (epoch s)."""
    return EPOCH + timedelta(days=int(at // DAY_S))


def day_usage(day: date, counts: Mapping[str, int]) -> DayUsage:
    """Read the counters of one day."""
    return DayUsage(
        day=day,
        images=counts.get("images", 0),
        jobs={s: counts[f"jobs:{s}"] for s in JobStatus if counts.get(f"jobs:{s}")},
        device_s={
            name.removeprefix("gpu_ms:"): number / 1e3
            for name, number in sorted(counts.items())
            if name.startswith("gpu_ms:")
        },
        images_asked=counts.get("asked", 0),
    )


def cost_of(device_s: Mapping[str, float], prices: Mapping[str, float]) -> float | None:
    """Sum up what time of devices costs; None where a price is not known.

    Units: prices of an hour
    """
    if not prices or not device_s.keys() <= prices.keys():
        return None
    return sum(seconds / 3600 * prices[name] for name, seconds in device_s.items())


def _counts(row: Mapping[bytes, bytes] | Sequence[bytes]) -> dict[str, int]:
    pairs = row.items() if isinstance(row, Mapping) else zip(row[::2], row[1::2], strict=True)
    return {name.decode(): int(value) for name, value in pairs}
