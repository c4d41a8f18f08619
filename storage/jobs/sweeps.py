"""What keeps jobs moving when processes die: reap, republish, expire, rescue, rebuild, forget."""

from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from redis.asyncio import Redis

from core.codec import encode_short
from core.job import Failure, JobRequest, JobStatus
from core.placement import Placement
from storage.archive.archive import NO_ARCHIVE, Archive
from storage.archive.recall import recall_to_delete
from storage.jobs.listing import not_here
from storage.jobs.objects import keys_of, objects_of
from storage.redis.connect import ask, converting_errors
from storage.redis.index import scored
from storage.redis.keys import FINISHED, PRIORITIES, QUEUES, job_key, waiting_key
from storage.redis.script import call, load

SLICE = 200  #: keys one script looks at when indexes are rebuilt: less than a millisecond
#: Keys that show whether an index is lost: most keys have an entry in one that is large.
SAMPLE = 10
BATCH = 100  #: jobs one script looks at, so that no other client waits long
ROUNDS = 50  #: batches of one sweep; the next sweep goes on
DEPTH = 200  #: oldest jobs of one list that are compared with its messages
ASTRAY = 5000  #: oldest jobs of one list that nobody serves, some of which wait for its model
MAX_PUBLICATIONS = 10  #: without a claim; then the message itself must be at fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """What became of jobs whose lease ran out."""

    back: tuple[str, ...]  #: ids on their queue again
    ended: tuple[str, ...]  #: ids failed after too many attempts, or expired


@dataclass(frozen=True, slots=True, kw_only=True)
class Old:
    """A job that ended long ago."""

    id: str
    keys: tuple[str, ...]  #: of its objects, if they are there


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A job that has ended, whichever way."""

    id: str
    at: float  #: epoch s, the store's clock


class Upkeep(Protocol):
    """What the upkeep loop asks of a store."""

    async def reap(self) -> Reaped:
        """Take jobs from workers whose lease ran out; bury those that were tried too often."""

    async def republish(self, stale_s: float) -> list[str]:
        """Publish again the messages of queued jobs that have been missing for `stale_s`."""

    async def expire(self) -> list[str]:
        """End jobs whose deadline has passed; return their ids."""

    async def find_old(self, retention_s: float) -> list[Old]:
        """Find jobs that ended `retention_s` ago, to `forget` once they are nowhere."""

    async def find_old_of(
        self, tenant: str, retention_s: float, skip: int
    ) -> tuple[int, list[Old]]:
        """Look at some jobs of one tenant, beyond `skip`; return how many, and the old ones."""

    async def find_finished(self, since: float, limit: int) -> list[Finished]:
        """Find up to `limit` jobs that ended after a moment (epoch s), the latest first."""

    async def find_latencies(self, since: float, limit: int) -> list[float]:
        """Find how long the latest jobs took that succeeded after a moment (epoch s); seconds."""

    async def forget(self, ids: Sequence[str]) -> int:
        """Delete the records of jobs that have ended; return how many were still there."""

    async def rebuild(self, share: float) -> int:
        """Enter into the indexes what records say; return how many entries were missing."""

    async def rescue(self, served: Set[str]) -> list[str]:
        """Find jobs queued where nobody serves; `move` gives each another place."""

    async def move(
        self, job_id: str, request: JobRequest, placement: Placement, message: str
    ) -> bool:
        """Give a queued job another queue and model, keeping its turn."""

    async def give_up(self, job_id: str, failure: Failure) -> bool:
        """Bury a queued job that nobody will ever make; tell whether it was queued still."""


class Sweeper:
    """The sweeps over one Redis. Any number may run at once; one leader is enough."""

    def __init__(self, redis: Redis, *, max_attempts: int, archive: Archive = NO_ARCHIVE) -> None:
        self._redis = redis
        self._archive = archive
        self._max_attempts = max_attempts
        self._cursor = 0  #: of SCAN, where `rebuild` goes on

    async def reap(self) -> Reaped:
        """Take jobs from workers whose lease ran out; bury those that were tried too often."""
        back: list[str] = []
        ended: list[str] = []
        for _ in range(ROUNDS):
            first, second = await call(self._redis, load("reap"), self._max_attempts, BATCH)
            back += _names(first)
            ended += _names(second)
            if len(first) + len(second) < BATCH:
                break
        return Reaped(back=tuple(back), ended=tuple(ended))

    async def republish(self, stale_s: float) -> list[str]:
        """Publish again the messages of queued jobs that have been missing for `stale_s`.

        It takes two sweeps: one finds a message missing, a later one finds it missing still.
        """
        args = (int(stale_s * 1000), DEPTH, MAX_PUBLICATIONS)
        return _names(await call(self._redis, load("republish"), *args))

    async def expire(self) -> list[str]:
        """End jobs whose deadline has passed; return their ids."""
        return await _drain(lambda: call(self._redis, load("expire"), BATCH))

    async def find_old(self, retention_s: float) -> list[Old]:
        """Find up to `BATCH` jobs that ended `retention_s` ago, to `forget` once they are nowhere.

        Among their keys are those that attempts which were fenced off may have written.
        """
        old = (await self._old(retention_s))[1]
        return old or await self._archived(retention_s)

    async def find_old_of(
        self, tenant: str, retention_s: float, skip: int
    ) -> tuple[int, list[Old]]:
        """Look at up to `BATCH` jobs of one tenant, the oldest first, beyond `skip` of them.

        Returns how many were looked at, and those that ended `retention_s` ago. What is in the
        archive comes after all others.
        """
        looked, old = await self._old(retention_s, tenant, skip)
        if looked:
            return looked, old
        archived = await self._archived(retention_s, tenant)
        return len(archived), archived

    async def _old(
        self, retention_s: float, tenant: str = "", skip: int = 0
    ) -> tuple[int, list[Old]]:
        args = (int(retention_s * 1000), BATCH, tenant, skip)
        looked, rows = await call(self._redis, load("old"), *args)
        return looked, [Old(id=row[0].decode(), keys=keys_of(*row)) for row in rows]

    async def _archived(self, retention_s: float, tenant: str = "") -> list[Old]:
        """Find some that are in the archive alone: those that are tried again hide none."""
        if self._archive is NO_ARCHIVE:
            return []
        before_ms = await _now_ms(self._redis) - int(retention_s * 1e3)
        for page in range(ROUNDS):
            rows = await self._archive.find_old(before_ms, tenant, BATCH, page * BATCH)
            left = await not_here(self._redis, rows)
            if left or len(rows) < BATCH:
                return [Old(id=row.id, keys=objects_of(row.id, row.fields)) for row in left]
        return []

    async def now(self) -> float:
        """Read the one clock; epoch s."""
        return await _now_ms(self._redis) / 1e3

    async def find_finished(self, since: float, limit: int) -> list[Finished]:
        """Find up to `limit` jobs that ended after a moment (epoch s), the latest first."""
        after = f"({round(since * 1000)}"
        words = ("ZREVRANGEBYSCORE", FINISHED, "+inf", after, "WITHSCORES", "LIMIT", 0, limit)
        rows = scored(await ask(self._redis, *words))
        return [Finished(id=name.decode(), at=at_ms / 1e3) for name, at_ms in rows]

    async def find_latencies(self, since: float, limit: int) -> list[float]:
        """Find how long the latest jobs took that succeeded after a moment (epoch s); seconds.

        Of up to `limit` jobs, the latest to end, whichever way.
        """
        found = await self.find_finished(since, limit)
        async with self._redis.pipeline(transaction=False) as pipe:
            for job in found:
                pipe.hmget(job_key(job.id), "status", "created_at", "retried_at")
            with converting_errors():
                rows = await pipe.execute()
        return [
            round(job.at - float(retried_at or created_at) / 1e3, 3)
            for job, (status, created_at, retried_at) in zip(found, rows, strict=True)
            if status == JobStatus.SUCCEEDED.value.encode()
        ]

    async def forget(self, ids: Sequence[str]) -> int:
        """Delete the records of jobs that have ended; return how many were still there."""
        if not ids:
            return 0
        await recall_to_delete(self._redis, self._archive, ids)
        await call(self._redis, load("unscore"), *ids)  # before the records, which name scores
        return int(await call(self._redis, load("forget"), *ids))

    async def rebuild(self, share: float) -> int:
        """Enter into the indexes what records say; return how many entries were missing.

        It looks at a share of all keys, about: 1 is a whole pass, 0 a few keys, and the next call
        goes on.
        """
        slices = ceil(share * int(await ask(self._redis, "DBSIZE")) / SLICE) if share else 0
        missing, count = 0, SLICE if share else SAMPLE
        while True:
            cursor, found = await call(self._redis, load("rebuild"), self._cursor, count)
            self._cursor, missing, slices = int(cursor), missing + int(found), slices - 1
            if not self._cursor or (slices <= 0 and share < 1.0):
                return missing

    async def rescue(self, served: Set[str]) -> list[str]:
        """Find jobs queued where nobody serves; `move` gives each another place."""
        queues = {name.decode() for name in await ask(self._redis, "SMEMBERS", QUEUES)} - served
        async with self._redis.pipeline(transaction=False) as pipe:
            for key in (waiting_key(q, p) for q in sorted(queues) for p in PRIORITIES):
                pipe.execute_command("ZRANGE", key, 0, ASTRAY - 1)
            with converting_errors():
                return [name.decode() for names in await pipe.execute() for name in names]

    async def move(
        self, job_id: str, request: JobRequest, placement: Placement, message: str
    ) -> bool:
        """Give a queued job another queue and model, keeping its turn.

        Returns: False if it is not queued any more.
        """
        args = (
            encode_short(request),
            encode_short(placement),
            placement.queue,
            message,
            placement.level,
        )
        return bool(await call(self._redis, load("move"), job_id, *args))

    async def give_up(self, job_id: str, failure: Failure) -> bool:
        """Bury a queued job that nobody will ever make; tell whether it was queued still."""
        args = (failure.type, failure.title, failure.detail)
        return bool(await call(self._redis, load("give_up"), job_id, *args))


class UnfinishedJobs:
    """Tells which jobs are still to be made."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def known(self, ids: Sequence[str]) -> set[str]:
        """Name those of these jobs that are queued or running."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for job_id in ids:
                pipe.execute_command("HGET", job_key(job_id), "status")
            with converting_errors():
                statuses = await pipe.execute()
        open_ = {JobStatus.QUEUED.value.encode(), JobStatus.RUNNING.value.encode()}
        return {each for each, status in zip(ids, statuses, strict=True) if status in open_}


async def oldest_ended_s(redis: Redis) -> float:
    """Tell how long ago the first job ended that is in Redis; 0: there is none."""
    flat = await ask(redis, "ZRANGE", FINISHED, 0, 0, "WITHSCORES")
    now_ms = await _now_ms(redis)
    return max((now_ms - at_ms for _, at_ms in scored(flat)), default=0) / 1e3


async def _now_ms(redis: Redis) -> int:
    """Read the one clock."""
    seconds, us = await ask(redis, "TIME")
    return int(seconds) * 1000 + int(us) // 1000


async def _drain(sweep: Callable[[], Awaitable[Sequence[bytes]]]) -> list[str]:
    found: list[str] = []
    for _ in range(ROUNDS):
        names = await sweep()
        found += _names(names)
        if len(names) < BATCH:
            break
    return found


def _names(names: Sequence[bytes]) -> list[str]:
    return [name.decode() for name in names]
