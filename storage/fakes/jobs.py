"""In-memory fakes of `JobStore` and `ExpectedJobs`."""

import builtins
from collections.abc import Sequence
from dataclasses import replace

from core.boards.fleet import QueueDepth
from core.job import Job, JobStatus, Progress, Timing
from core.placement import is_own, shared_queue_of
from storage.fakes.record import Record, objects_of
from storage.fakes.store import MemoryStore
from storage.jobs.jobs import Jobs
from storage.jobs.listing import Page
from storage.jobs.record import (
    key_reused,
    not_buried,
    too_late,
)
from storage.jobs.submit import LOOK, Answer, ExpectedJob, NewJob
from storage.redis.index import read_cursor, write_cursor
from storage.redis.keys import PRIORITIES, list_of


class MemoryJobs(Jobs):
    """Job records in memory."""

    def __init__(self, store: MemoryStore | None = None, *, max_queue: int = 10_000) -> None:
        self.store = store or MemoryStore()
        self._max_queue = max_queue

    async def submit(self, jobs: Sequence[NewJob]) -> builtins.list[Answer]:
        return self.store.submit(jobs, self._max_queue)

    async def expect(self, job_id: str, keys: Sequence[str]) -> None:
        with self.store.lock:
            note = f"{next(self.store.notes):09}"
            self.store.expected[note] = (self.store.now(), job_id, tuple(keys))

    async def earlier(self, tenant: str, key: str, digest: str) -> Job | None:
        first, job_id = self.store.used_keys.get((tenant, key), ("", ""))
        record = self.store.records.get(job_id)
        if record is not None and first != digest:
            raise key_reused()
        return record.job if record else None

    async def get(self, job_id: str, tenant: str | None = None) -> Job:
        return self.store.find(job_id, tenant).job

    async def list(
        self,
        tenant: str,
        *,
        status: JobStatus | None = None,
        is_buried: bool = False,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page:
        records = (r for r in self.store.records.values() if r.job.is_buried or not is_buried)
        jobs = [record.job for record in records if record.job.tenant == tenant]
        jobs.sort(key=lambda j: (j.created_at, j.id), reverse=True)
        place = read_cursor(cursor)
        if place is not None:
            jobs = [j for j in jobs if (round(j.created_at * 1e3), j.id) < place]
        jobs = [j for j in jobs if status is None or j.status is status]
        page, rest = tuple(jobs[:limit]), jobs[limit:]
        if not (page and rest):
            return Page(jobs=page, cursor=None)
        last = page[-1]
        return Page(jobs=page, cursor=write_cursor(round(last.created_at * 1e3), last.id))

    async def cancel(self, job_id: str, tenant: str | None = None) -> Job:
        with self.store.lock:
            record = self.store.find(job_id, tenant)
            if record.job.status is JobStatus.RUNNING:
                self.store.stop(record)
            if not record.job.status.is_terminal:
                self.store.close(record, JobStatus.CANCELED)
            return record.job

    async def retry(self, job_id: str, tenant: str | None, message: str) -> Job:
        with self.store.lock:
            record = self.store.find(job_id, tenant)
            if record.job.is_buried:
                self._dig_up(record, message)
            elif not record.retries or record.job.status.is_terminal:
                raise not_buried(record.job)
            return record.job

    def _dig_up(self, record: Record, message: str) -> None:
        store, job = self.store, record.job
        if store.is_over(record):
            raise too_late(job)
        store.reopen(record)
        record.job = replace(
            job,
            attempts=0,
            is_buried=False,
            is_suspect=True,
            retried_at=store.now(),
            started_at=None,
            finished_at=None,
            failure=None,
            progress=Progress(),
            timing=Timing(),
        )
        record.message = message
        record.rings = record.finishes = 0
        for posted in (store.outbox, store.dead):
            posted.pop(record.of_life(f"{job.id}:completed"), None)
        record.retries += 1
        store.events.pop(job.id, None)
        store.requeue(record, "retried")
        store.emit(job.id, "status", {"status": "queued"})

    async def find_objects(self, job_id: str, tenant: str | None = None) -> tuple[str, ...]:
        with self.store.lock:
            return objects_of(self.store.find(job_id, tenant))

    async def forget(self, job_id: str) -> bool:
        with self.store.lock:
            record = self.store.records.get(job_id)
            if record is None or not record.job.status.is_terminal:
                return False
            self.store.forget(record)
            return True

    async def queue_position(self, job: Job) -> int | None:
        return self.store.position(job.id, job.placement.queue)

    async def ahead(self, queue: str, priority: int, tenant: str) -> int:
        before = [list_of(queue, each) for each in PRIORITIES if each < priority]
        own = list_of(queue, priority)
        shares = self.store.shares.get(own, {})
        start = max(shares.get("", 0.0), shares.get(tenant, 0.0))
        turns = sum((record.start or 0.0) <= start for record in self.store.waiting(own))
        return turns + sum(len(self.store.waiting(name)) for name in before)

    async def depths(self, queues: Sequence[str]) -> builtins.list[QueueDepth]:
        return [self.store.depth(queue, *self._own(queue)) for queue in queues]

    def _own(self, queue: str) -> set[str]:
        return {q for q in self.store.queues if is_own(q) and shared_queue_of(q) == queue}


class MemoryExpectedJobs:
    """Notes of objects that are stored before jobs, in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store

    async def find(self, older_s: float, after: str = "") -> builtins.list[ExpectedJob]:
        with self.store.lock:
            before = self.store.now() - older_s
            notes = [
                ExpectedJob(note=note, has_come=job_id in self.store.records, keys=keys)
                for note, (at, job_id, keys) in self.store.expected.items()
                if at <= before and note > after
            ]
            return notes[:LOOK]

    async def settle(self, expected: Sequence[ExpectedJob]) -> None:
        with self.store.lock:
            for each in expected:
                self.store.expected.pop(each.note, None)
