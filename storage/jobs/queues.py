"""Measure queues: how much waits, and how much of it before a job."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from redis.asyncio import Redis

from core.boards.fleet import QueueDepth
from core.job import Job
from core.placement import is_own, shared_queue_of
from storage.redis.connect import ask, converting_errors
from storage.redis.index import scored
from storage.redis.keys import PRIORITIES, QUEUES, queued_key, turns_key, waiting_key
from storage.redis.script import call, load


async def position_of(redis: Redis, job: Job) -> int | None:
    """Count the jobs served before a queued one; None once it is not queued."""
    queue = job.placement.queue
    async with redis.pipeline(transaction=False) as pipe:
        for priority in PRIORITIES:
            pipe.execute_command("ZRANK", turns_key(queue, priority), job.id)
            pipe.execute_command("ZCARD", turns_key(queue, priority))
        with converting_errors():
            replies = await pipe.execute()
    before = 0
    for rank, count in zip(replies[::2], replies[1::2], strict=True):
        if rank is not None:
            return before + int(rank)
        before += int(count)
    return None


async def ahead(redis: Redis, queue: str, priority: int, tenant: str) -> int:
    """Count the jobs that would be served before a new one of a tenant."""
    return int(await call(redis, load("ahead"), queue, priority, tenant))


async def depths(redis: Redis, queues: Sequence[str]) -> list[QueueDepth]:
    """Measure what waits on each variant queue, and on workers' own queues of it."""
    known = [name.decode() for name in await ask(redis, "SMEMBERS", QUEUES)]
    lists = {queue: _with_own(queue, known) for queue in queues}
    keys = [waiting_key(name, p) for q in queues for name in lists[q] for p in PRIORITIES]
    names = [name for queue in queues for name in lists[queue]]
    async with redis.pipeline(transaction=False) as pipe:
        pipe.execute_command("TIME")
        for key in keys:
            pipe.execute_command("ZCARD", key)
            pipe.execute_command("ZRANGE", key, 0, 0, "WITHSCORES")
        for name in names:
            pipe.hgetall(queued_key(name))
        with converting_errors():
            (seconds, micros), *replies = await pipe.execute()
    now, each = int(seconds) + int(micros) / 1e6, iter(replies)
    rows = {q: list(islice(each, 2 * len(PRIORITIES) * len(lists[q]))) for q in queues}
    tenants = {queue: _added_up(islice(each, len(lists[queue]))) for queue in queues}
    return [_depth(queue, rows[queue], tenants[queue], now) for queue in queues]


def _added_up(rows: Iterable[Mapping[bytes, bytes]]) -> dict[str, int]:
    """Add up the jobs of each tenant over the queues of a model."""
    total = Counter[str]()
    for row in rows:
        total.update({tenant.decode(): int(count) for tenant, count in row.items()})
    return dict(total)


def _with_own(queue: str, known: Sequence[str]) -> list[str]:
    own = (name for name in known if is_own(name) and shared_queue_of(name) == queue)
    return [queue, *sorted(own)]


def _depth(queue: str, row: Sequence[Any], tenants: Mapping[str, int], now: float) -> QueueDepth:
    counts = [int(count) for count in row[::2]]
    firsts = [score for first in row[1::2] for _, score in scored(first)]
    oldest_s = now - min(firsts) / 1e3 if firsts else 0.0
    return QueueDepth(
        queue=queue,
        waiting=sum(counts),
        oldest_s=max(0.0, round(oldest_s, 3)),
        later=sum(counts) - sum(counts[:: len(PRIORITIES)]),  # queue by queue, priority by priority
        tenants=tenants,
    )
