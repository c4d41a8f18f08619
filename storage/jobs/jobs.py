"""Job store of the api: submit, read, list, cancel, queue positions."""

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from redis.asyncio import Redis

from core.boards.fleet import QueueDepth
from core.job import Job, JobStatus
from storage.jobs.queues import ahead, depths, position_of
from storage.jobs.record import key_reused, no_such_job, not_buried, pairs, read_job, too_late
from storage.jobs.submit import Answer, NewJob, Submitted, submit
from storage.jobs.sweeps import keys_of
from storage.redis.connect import ask, converting_errors
from storage.redis.index import ids_after, write_cursor
from storage.redis.keys import buried_key, idempotency_key, job_key, tenant_key
from storage.redis.script import call, load
from storage.redis.strict import Confirm, take_its_word

SCAN = 200  #: index entries looked at in one go when a list asks for one status
MAX_SCANS = 20  #: then the page is returned short, with a cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some jobs of one tenant, newest first."""

    jobs: tuple[Job, ...]
    cursor: str | None  #: pass it to get what follows; None: nothing follows


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

    async def find_objects(self, job_id: str, tenant: str | None = None) -> tuple[str, ...]:
        """Name every object of a job, to delete before it is forgotten."""

    async def forget(self, job_id: str) -> bool:
        """Delete the record of a job that has ended; False: it has not, or there is none."""

    async def queue_position(self, job: Job) -> int | None:
        """Count the jobs served before a queued one; None once it is not queued."""

    async def ahead(self, queue: str, priority: int, tenant: str) -> int:
        """Count the jobs that would be served before a new one of a tenant."""

    async def depths(self, queues: Sequence[str]) -> builtins.list[QueueDepth]:
        """Measure what waits on each variant queue, and on workers' own queues of it."""


class JobStore:
    """Job records in Redis. Every change is one script; see `storage.redis.keys`."""

    def __init__(self, redis: Redis, *, max_queue: int, confirm: Confirm = take_its_word) -> None:
        """`confirm` is asked before a job counts as accepted."""
        self._redis = redis
        self._max_queue = max_queue
        self._confirm = confirm

    async def submit(self, jobs: Sequence[NewJob]) -> builtins.list[Answer]:
        """Store and queue jobs, all in one round trip; each is done wholly or not at all.

        Sending the same id again has no second effect, so a lost answer may be asked for again.

        Raises:
            StoreUnavailable: nothing is known of any of them.
        """
        answers = await submit(self._redis, jobs, max_queue=self._max_queue)
        accepted = [job_key(each.id) for each in answers if isinstance(each, Submitted)]
        await self._confirm(self._redis, *accepted)
        return answers

    async def earlier(self, tenant: str, key: str, digest: str) -> Job | None:
        """Find the job that a request with this idempotency key has become, if any.

        Raises:
            Conflict: that request asked for something else.
            StoreUnavailable: Redis cannot serve now, or confirm the job.
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
        await self._confirm(
            self._redis, job_key(job_id)
        )  # whoever asked first may have been told to ask again
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

    async def find_objects(self, job_id: str, tenant: str | None = None) -> tuple[str, ...]:
        """Name every object of a job, to delete before it is forgotten.

        Among them are those that attempts which were fenced off may have written.

        Raises:
            NotFound: no such job, or another tenant's.
        """
        names = ("tenant", "fences", "request", "images")
        owner, fences, request, images = await ask(self._redis, "HMGET", job_key(job_id), *names)
        if owner is None or (tenant is not None and owner.decode() != tenant):
            raise no_such_job(job_id)
        return keys_of(job_id.encode(), owner, fences or b"", request, images or b"")

    async def forget(self, job_id: str) -> bool:
        """Delete the record of a job that has ended; False: it has not, or there is none."""
        return bool(await call(self._redis, load("forget"), job_id))

    async def queue_position(self, job: Job) -> int | None:
        """Count the jobs served before a queued one; None once it is not queued."""
        return await position_of(self._redis, job)

    async def ahead(self, queue: str, priority: int, tenant: str) -> int:
        """Count the jobs that would be served before a new one of a tenant."""
        return await ahead(self._redis, queue, priority, tenant)

    async def depths(self, queues: Sequence[str]) -> builtins.list[QueueDepth]:
        """Measure what waits on each variant queue, and on workers' own queues of it."""
        return await depths(self._redis, queues)

    async def _read_all(self, ids: Sequence[str]) -> Sequence[Job | None]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for job_id in ids:
                pipe.execute_command("HGETALL", job_key(job_id))
            with converting_errors():
                records = await pipe.execute()
        return [read_job(i, r) if r else None for i, r in zip(ids, records, strict=True)]
