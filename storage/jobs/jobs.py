"""Job store of the api: submit, read, list, cancel, queue positions."""

import builtins
from collections.abc import Sequence
from typing import Protocol

from redis.asyncio import Redis

from core.boards.fleet import QueueDepth
from core.job import Job, JobStatus
from storage.archive.archive import NO_ARCHIVE, Archive
from storage.archive.recall import recall, recall_to_delete
from storage.archive.records import Fields
from storage.jobs.listing import Page, Wanted, read_page
from storage.jobs.objects import objects_of
from storage.jobs.queues import ahead, depths, position_of
from storage.jobs.record import key_reused, no_such_job, not_buried, read_job, too_late
from storage.jobs.submit import Answer, NewJob, Submitted, expect, submit
from storage.redis.connect import ask
from storage.redis.keys import idempotency_key, job_key
from storage.redis.script import call, load, pairs
from storage.redis.strict import Confirm, take_its_word


class Jobs(Protocol):
    """What the api and the submitter ask of a job store."""

    async def submit(self, jobs: Sequence[NewJob]) -> builtins.list[Answer]:
        """Store and queue jobs, all in one round trip; each is done wholly or not at all."""

    async def expect(self, job_id: str, keys: Sequence[str]) -> None:
        """Note which objects are stored before a job, to be deleted if it never comes."""

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
    """Job records in Redis, and in the archive those that ended a while ago.

    Every change is one script, in Redis; see `storage.redis.keys`.
    """

    def __init__(
        self,
        redis: Redis,
        *,
        max_queue: int,
        confirm: Confirm = take_its_word,
        archive: Archive = NO_ARCHIVE,
    ) -> None:
        """`confirm` is asked before a job counts as accepted; `archive` has what left Redis."""
        self._redis = redis
        self._archive = archive
        self._max_queue = max_queue
        self._confirm = confirm

    async def submit(self, jobs: Sequence[NewJob]) -> builtins.list[Answer]:
        """Store and queue jobs, all in one round trip; each is done wholly or not at all.

        Sending the same id again has no second effect, so a lost answer may be asked for again.

        Raises:
            StoreRefused: none of them is stored.
            StoreUnavailable: nothing is known of any of them.
        """
        answers = await submit(self._redis, jobs, max_queue=self._max_queue)
        accepted = [job_key(each.id) for each in answers if isinstance(each, Submitted)]
        await self._confirm(self._redis, *accepted)
        return answers

    async def expect(self, job_id: str, keys: Sequence[str]) -> None:
        """Note which objects are stored before a job, to be deleted if it never comes.

        Raises:
            StoreUnavailable: store none of them.
        """
        await expect(self._redis, job_id, keys)

    async def earlier(self, tenant: str, key: str, digest: str) -> Job | None:
        """Find the job that a request with this idempotency key has become, if any.

        Raises:
            Conflict: that request asked for something else.
            StoreUnavailable: Redis cannot serve now, or confirm the job.
        """
        named = idempotency_key(tenant, key)
        kept = await ask(self._redis, "GET", named)
        if kept is None:
            return None
        first, _, job_id = kept.decode().partition("\n")
        fields = await self._fields(job_id)
        if not fields:
            return None
        if first != digest:
            raise key_reused()
        await self._confirm(
            self._redis, named
        )  # whoever asked first may have been told to ask again
        return read_job(job_id, fields)

    async def get(self, job_id: str, tenant: str | None = None) -> Job:
        """Read one job; a tenant sees its own only.

        Raises:
            NotFound: no such job, or another tenant's.
        """
        return read_job(job_id, await self._owned(job_id, tenant))

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
        wanted = Wanted(tenant=tenant, status=status, is_buried=is_buried, limit=limit)
        return await read_page(self._redis, self._archive, wanted, cursor)

    async def cancel(self, job_id: str, tenant: str | None = None) -> Job:
        """Stop a job for good; one that has ended stays as it is.

        Raises:
            NotFound: no such job, or another tenant's.
        """
        flat = await call(self._redis, load("cancel"), job_id, tenant or "")
        return read_job(job_id, pairs(flat)) if flat else await self.get(job_id, tenant)

    async def retry(self, job_id: str, tenant: str | None, message: str) -> Job:
        """Queue a buried job again, popped next and made alone, under a new queue message.

        One that was queued so before and has not ended since stays as it is.

        Raises:
            NotFound: no such job, or another tenant's.
            NotRetriable: it is not buried, or its deadline has passed.
        """
        words = (job_id, tenant or "", message)
        answer = await call(self._redis, load("retry"), *words)
        if not answer:
            job = await self.get(job_id, tenant)
            if not job.is_buried:
                raise not_buried(job)
            await recall(self._redis, self._archive, [job_id])
            answer = await call(self._redis, load("retry"), *words)
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
        return objects_of(job_id, await self._owned(job_id, tenant))

    async def forget(self, job_id: str) -> bool:
        """Delete the record of a job that has ended; False: it has not, or there is none."""
        await recall_to_delete(self._redis, self._archive, [job_id])
        await call(self._redis, load("unscore"), job_id)  # before the record, which names its score
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

    async def _owned(self, job_id: str, tenant: str | None) -> Fields:
        fields = await self._fields(job_id)
        if not fields or (tenant is not None and fields[b"tenant"].decode() != tenant):
            raise no_such_job(job_id)
        return fields

    async def _fields(self, job_id: str) -> Fields:
        """Read a record wherever it is; empty: nowhere. It may come back while it is looked for."""
        fields: Fields = await ask(self._redis, "HGETALL", job_key(job_id))
        if fields or self._archive is NO_ARCHIVE:
            return fields
        found = await self._archive.find([job_id])
        return found[0].fields if found else await ask(self._redis, "HGETALL", job_key(job_id))
