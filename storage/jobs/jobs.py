"""Job store of the api: submit, read, list, cancel, queue positions."""

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from redis.asyncio import Redis

from core.boards.fleet import QueueDepth
from core.codec import encode
from core.errors import Conflict, TooManyRequests
from core.job import Job, JobRequest, JobStatus
from core.placement import Placement, is_own, shared_queue_of
from storage.jobs.record import (
    key_reused,
    no_such_job,
    not_buried,
    pairs,
    queue_full,
    read_job,
    too_late,
)
from storage.redis.connect import Word, ask, converting_errors
from storage.redis.index import ids_after, scored, write_cursor
from storage.redis.keys import (
    PRIORITIES,
    QUEUES,
    buried_key,
    idempotency_key,
    job_key,
    tenant_key,
    waiting_key,
)
from storage.redis.script import call, load

TAG = "@@TAG@@"  #: stands in a message for the delivery tag, which the script fills in
GROUP = 256  #: jobs one submit script takes at most
SCAN = 200  #: index entries looked at in one go when a list asks for one status
MAX_SCANS = 20  #: then the page is returned short, with a cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """An accepted request on its way into the store."""

    id: str
    tenant: str
    request: JobRequest
    placement: Placement
    deadline_s: float | None  #: seconds from now
    message: str  #: the queue message, its delivery tag written `@@TAG@@`
    priority: int  #: 0, 3, 6 or 9; 0 is served first
    idempotency_key: str | None = None
    digest: str = ""  #: of the request as the client sent it


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A job that is stored and queued, now or by an earlier request with the same key."""

    id: str
    is_new: bool
    #: Jobs that are served before it, when it was queued; of an earlier request nothing is said.
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some jobs of one tenant, newest first."""

    jobs: tuple[Job, ...]
    cursor: str | None  #: pass it to get what follows; None: nothing follows


Answer = Submitted | Conflict | TooManyRequests


class Jobs(Protocol):
    """What the api and the submitter ask of a job store."""

    async def submit(self, jobs: Sequence[NewJob]) -> builtins.list[Answer]:
        """Store and queue jobs, all in one round trip; each is done wholly or not at all."""

    async def earlier(self, tenant: str, key: str, digest: str) -> Job | None:
        """Find the job that a request with this idempotency key has become, if any."""

    async def get(self, job_id: str, tenant: str | None = None) -> Job:
        """Read one job; a tenant sees its own only."""

    async def list(
        self,
        tenant: str,
        *,
        status: JobStatus | None = None,
        is_buried: bool = False,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page:
        """Read a tenant's jobs, newest first; a page may be short and still have a cursor."""

    async def retry(self, job_id: str, tenant: str | None, message: str) -> Job:
        """Queue a buried job again, popped next and made alone, under a new queue message."""

    async def cancel(self, job_id: str, tenant: str | None = None) -> Job:
        """Stop a job for good; one that has ended stays as it is."""

    async def queue_position(self, job: Job) -> int | None:
        """Count the jobs served before a queued one; None once it is not queued."""

    async def ahead(self, queue: str, priority: int) -> int:
        """Count the jobs that would be served before a new one."""

    async def depths(self, queues: Sequence[str]) -> builtins.list[QueueDepth]:
        """Measure what waits on each variant queue, and on workers' own queues of it."""


class JobStore:
    """Job records in Redis. Every change is one script; see `storage.redis.keys`."""

    def __init__(self, redis: Redis, *, max_queue: int) -> None:
        self._redis = redis
        self._max_queue = max_queue

    async def submit(self, jobs: Sequence[NewJob]) -> builtins.list[Answer]:
        """Store and queue jobs, all in one round trip; each is done wholly or not at all.

        Sending the same id again has no second effect, so a lost answer may be asked for again.

        Raises:
            StoreUnavailable: nothing is known of any of them.
        """
        answers: list[Answer] = []
        for start in range(0, len(jobs), GROUP):
            group = jobs[start : start + GROUP]
            args = [a for job in group for a in _arguments(job)]
            replies = await call(self._redis, load("submit"), self._max_queue, *args)
            answers += [_answer(job, *reply) for job, reply in zip(group, replies, strict=True)]
        return answers

    async def earlier(self, tenant: str, key: str, digest: str) -> Job | None:
        """Find the job that a request with this idempotency key has become, if any.

        Raises:
            Conflict: that request asked for something else.
        """
        kept = await ask(self._redis, "GET", idempotency_key(tenant, key))
        if kept is None:
            return None
        first, _, job_id = kept.decode().partition("\n")
        fields = await ask(self._redis, "HGETALL", job_key(job_id))
        if not fields:
            return None
        if first != digest:
            raise key_reused()
        return read_job(job_id, fields)

    async def get(self, job_id: str, tenant: str | None = None) -> Job:
        """Read one job; a tenant sees its own only.

        Raises:
            NotFound: no such job, or another tenant's.
        """
        fields = await ask(self._redis, "HGETALL", job_key(job_id))
        if not fields or (tenant is not None and fields[b"tenant"].decode() != tenant):
            raise no_such_job(job_id)
        return read_job(job_id, fields)

    async def list(
        self,
        tenant: str,
        *,
        status: JobStatus | None = None,
        is_buried: bool = False,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page:
        """Read a tenant's jobs, newest first; a page may be short and still have a cursor.

        `is_buried`: only those that ended for want of attempts, and may be tried again.
        """
        index = buried_key(tenant) if is_buried else tenant_key(tenant)
        found: list[Job] = []
        for _ in range(MAX_SCANS):
            span = limit if status is None else SCAN
            ids = await ids_after(self._redis, index, cursor, span)
            jobs = await self._read_all([name for name, _ in ids])
            for (name, score), job in zip(ids, jobs, strict=True):
                cursor = write_cursor(score, name)
                if job is not None and (status is None or job.status is status):
                    found.append(job)
                if len(found) == limit:
                    return Page(jobs=tuple(found), cursor=cursor)
            if len(ids) < span:
                return Page(jobs=tuple(found), cursor=None)
        return Page(jobs=tuple(found), cursor=cursor)

    async def cancel(self, job_id: str, tenant: str | None = None) -> Job:
        """Stop a job for good; one that has ended stays as it is.

        Raises:
            NotFound: no such job, or another tenant's.
        """
        flat = await call(self._redis, load("cancel"), job_id, tenant or "")
        if not flat:
            raise no_such_job(job_id)
        return read_job(job_id, pairs(flat))

    async def retry(self, job_id: str, tenant: str | None, message: str) -> Job:
        """Queue a buried job again, popped next and made alone, under a new queue message.

        One that was queued so before and has not ended since stays as it is.

        Raises:
            NotFound: no such job, or another tenant's.
            NotRetriable: it is not buried, or its deadline has passed.
        """
        answer = await call(self._redis, load("retry"), job_id, tenant or "", message)
        if not answer:
            raise no_such_job(job_id)
        code, flat = answer
        job = read_job(job_id, pairs(flat))
        if code != 1:
            raise too_late(job) if code == -1 else not_buried(job)
        return job

    async def queue_position(self, job: Job) -> int | None:
        """Count the jobs served before a queued one; None once it is not queued."""
        queue = job.placement.queue
        async with self._redis.pipeline(transaction=False) as pipe:
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

    async def ahead(self, queue: str, priority: int) -> int:
        """Count the jobs that would be served before a new one."""
        keys = [waiting_key(queue, each) for each in PRIORITIES if each <= priority]
        async with self._redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.execute_command("ZCARD", key)
            with converting_errors():
                return sum(await pipe.execute())

    async def depths(self, queues: Sequence[str]) -> builtins.list[QueueDepth]:
        """Measure what waits on each variant queue, and on workers' own queues of it."""
        known = [name.decode() for name in await ask(self._redis, "SMEMBERS", QUEUES)]
        lists = {queue: _with_own(queue, known) for queue in queues}
        keys = [waiting_key(name, p) for q in queues for name in lists[q] for p in PRIORITIES]
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.execute_command("TIME")
            for key in keys:
                pipe.execute_command("ZCARD", key)
                pipe.execute_command("ZRANGE", key, 0, 0, "WITHSCORES")
            with converting_errors():
                (seconds, micros), *replies = await pipe.execute()
        now, each = int(seconds) + int(micros) / 1e6, iter(replies)
        rows = {q: list(islice(each, 2 * len(PRIORITIES) * len(lists[q]))) for q in queues}
        return [_depth(queue, rows[queue], now) for queue in queues]

    async def _read_all(self, ids: Sequence[str]) -> Sequence[Job | None]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for job_id in ids:
                pipe.execute_command("HGETALL", job_key(job_id))
            with converting_errors():
                records = await pipe.execute()
        return [read_job(i, r) if r else None for i, r in zip(ids, records, strict=True)]


def _with_own(queue: str, known: Sequence[str]) -> builtins.list[str]:
    own = (name for name in known if is_own(name) and shared_queue_of(name) == queue)
    return [queue, *sorted(own)]


def _arguments(job: NewJob) -> tuple[Word, ...]:
    hook = job.request.webhook
    return (
        job.id,
        job.tenant,
        encode(job.request),
        encode(job.placement),
        job.placement.queue,
        job.priority,
        job.message,
        "" if job.deadline_s is None else int(job.deadline_s * 1000),
        job.idempotency_key or "",
        job.digest,
        job.request.task.value,
        job.placement.level,
        hook.url if hook else "",
        ",".join(hook.events) if hook else "",
        "" if job.request.slo_s is None else int(job.request.slo_s * 1000),
    )


def _answer(job: NewJob, code: int, value: bytes, position: int = 0) -> Answer:
    match code:
        case 0 | 1:
            return Submitted(id=value.decode(), is_new=code == 1, position=position)
        case 2:
            return key_reused()
        case _:
            return queue_full(job.placement.queue, int(value) / 1e3)


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
