"""Measure queues: how much waits, and how much of it before a job."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from redis.asyncio import Redis

from core.boards.fleet import QueueDepth
from core.job import Job
from core.placement import is_own, shared_queue_of
from storage.redis.connect import ask, converting_errors
from storage.redis.index import scored
from storage.redis.keys import PRIORITIES, QUEUES, waiting_key


async def position_of(redis: Redis, job: Job) -> int | None:
    """Count the jobs served before a queued one; None once it is not queued."""
    queue = job.placement.queue
    async with redis.pipeline(transaction=False) as pipe:
        for priority in PRIORITIES:
            pipe.execute_command("ZRANK", waiting_key(queue, priority), job.id)
            pipe.execute_command("ZCARD", waiting_key(queue, priority))
        with converting_errors():
            replies = await pipe.execute()
    before = 0
    for rank, count in zip(replies[::2], replies[1::2], strict=True):
        if rank is not None:
            return before + int(rank)
        before += int(count)
    return None


async def ahead(redis: Redis, queue: str, priority: int) -> int:
    """Count the jobs that would be served before a new one."""
    keys = [waiting_key(queue, each) for each in PRIORITIES if each <= priority]
    async with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.execute_command("ZCARD", key)
        with converting_errors():
            return sum(await pipe.execute())


async def depths(redis: Redis, queues: Sequence[str]) -> list[QueueDepth]:
    """Measure what waits on each variant queue, and on workers' own queues of it."""
    known = [name.decode() for name in await ask(redis, "SMEMBERS", QUEUES)]
    lists = {queue: _with_own(queue, known) for queue in queues}
    keys = [waiting_key(name, p) for q in queues for name in lists[q] for p in PRIORITIES]
    async with redis.pipeline(transaction=False) as pipe:
        pipe.execute_command("TIME")
        for key in keys:
            pipe.execute_command("ZCARD", key)
            pipe.execute_command("ZRANGE", key, 0, 0, "WITHSCORES")
        with converting_errors():
            (seconds, micros), *replies = await pipe.execute()
    now, each = int(seconds) + int(micros) / 1e6, iter(replies)
    rows = {q: list(islice(each, 2 * len(PRIORITIES) * len(lists[q]))) for q in queues}
    return [_depth(queue, rows[queue], now) for queue in queues]


def _with_own(queue: str, known: Sequence[str]) -> list[str]:
    own = (name for name in known if is_own(name) and shared_queue_of(name) == queue)
    return [queue, *sorted(own)]


def _depth(queue: str, row: Sequence[Any], now: float) -> QueueDepth:
    counts = [int(count) for count in row[::2]]
    firsts = [score for first in row[1::2] for _, score in scored(first)]
    oldest_s = now - min(firsts) / 1e3 if firsts else 0.0
    return QueueDepth(
        queue=queue,
        waiting=sum(counts),
        oldest_s=max(0.0, round(oldest_s, 3)),
        later=sum(counts) - sum(counts[:: len(PRIORITIES)]),  # queue by queue, priority by priority
    )
