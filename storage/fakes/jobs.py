"""In-memory fake of `JobStore`."""

import builtins
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from core.boards.fleet import QueueDepth
from core.job import Job, JobStatus, Progress, Timing
from core.placement import is_own, shared_queue_of
from storage.fakes.limits import over, standing
from storage.fakes.record import Record, objects_of
from storage.fakes.state import MemoryStore
from storage.jobs.jobs import Jobs
from storage.jobs.listing import Page
from storage.jobs.record import (
    key_reused,
    limit_reached,
    no_such_job,
    not_buried,
    queue_full,
    too_late,
)
from storage.jobs.submit import Answer, NewJob, Submitted
from storage.redis.index import read_cursor, write_cursor
from storage.redis.keys import PRIORITIES, list_of


class MemoryJobs(Jobs):
    """Job records in memory."""

    def __init__(self, store: MemoryStore | None = None, *, max_queue: int = 10_000) -> None:
        self.store = store or MemoryStore()
        self._max_queue = max_queue

    async def submit(self, jobs: Sequence[NewJob]) -> builtins.list[Answer]:
        with self.store.lock:
            return [self._submit(job) for job in jobs]

    async def earlier(self, tenant: str, key: str, digest: str) -> Job | None:
        first, job_id = self.store.used_keys.get((tenant, key), ("", ""))
        record = self.store.records.get(job_id)
        if record is not None and first != digest:
            raise key_reused()
        return record.job if record else None

    async def get(self, job_id: str, tenant: str | None = None) -> Job:
        return self._record(job_id, tenant).job

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
            record = self._record(job_id, tenant)
            if record.job.status is JobStatus.RUNNING:
                self.store.stop(record)
            if not record.job.status.is_terminal:
                self.store.close(record, JobStatus.CANCELED)
            return record.job

    async def retry(self, job_id: str, tenant: str | None, message: str) -> Job:
        with self.store.lock:
            record = self._record(job_id, tenant)
            if record.job.is_buried:
                self._dig_up(record, message)
            elif not record.retries or record.job.status.is_terminal:
                raise not_buried(record.job)
            return record.job

    def _dig_up(self, record: Record, message: str) -> None:
        store, job = self.store, record.job
        if store.is_over(record):
            raise too_late(job)
        store.accounts[job.tenant].reopen(job, store.now(), record.leaves_bytes)
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
        store.queues.add(job.placement.queue)
        store.events.pop(job.id, None)
        store.requeue(record, "retried")
        store.emit(job.id, "status", {"status": "queued"})

    async def find_objects(self, job_id: str, tenant: str | None = None) -> tuple[str, ...]:
        with self.store.lock:
            return objects_of(self._record(job_id, tenant))

    async def forget(self, job_id: str) -> bool:
        with self.store.lock:
            record = self.store.records.get(job_id)
            if record is None or not record.job.status.is_terminal:
                return False
            self.store.forget(record)
            return True

    async def queue_position(self, job: Job) -> int | None:
        return self._position(job.id, job.placement.queue)

    def _position(self, job_id: str, queue: str) -> int | None:
        lists = [self.store.waiting(list_of(queue, priority)) for priority in PRIORITIES]
        ids = [record.job.id for waiting in lists for record in waiting]
        return ids.index(job_id) if job_id in ids else None

    async def ahead(self, queue: str, priority: int, tenant: str) -> int:
        before = [list_of(queue, each) for each in PRIORITIES if each < priority]
        own = list_of(queue, priority)
        shares = self.store.shares.get(own, {})
        start = max(shares.get("", 0.0), shares.get(tenant, 0.0))
        turns = sum((record.start or 0.0) <= start for record in self.store.waiting(own))
        return turns + sum(len(self.store.waiting(name)) for name in before)

    async def depths(self, queues: Sequence[str]) -> builtins.list[QueueDepth]:
        return [self._depth(queue, *self._own(queue)) for queue in queues]

    def _own(self, queue: str) -> set[str]:
        return {q for q in self.store.queues if is_own(q) and shared_queue_of(q) == queue}

    def _submit(self, job: NewJob) -> Answer:
        store, queue = self.store, job.placement.queue
        if job.id in store.records:
            return self._submitted(job)
        used = store.used_keys.get((job.tenant, job.idempotency_key or ""))
        if job.idempotency_key and used is not None and used[1] in store.records:
            digest, job_id = used
            return Submitted(id=job_id, is_new=False) if digest == job.digest else key_reused()
        depth = self._depth(queue)
        if depth.waiting >= self._max_queue and not self._is_below_share(job):
            store.stats["refused"] += 1
            return queue_full(queue, max(1.0, min(60.0, depth.oldest_s / 10)))
        account, now = store.accounts[job.tenant], store.now()
        num_bytes = job.brings_bytes + job.leaves_bytes
        name, wait_s = "", 0.0
        if not job.limits.is_empty:
            name, wait_s = over(account, job.limits, now, job.request.n, num_bytes)
        if name:
            store.stats["refused"] += 1
            return limit_reached(job.limits, name, wait_s, standing(account, job.limits, now))
        store.queues.add(queue)
        record = Record(
            job=self._accept(job),
            priority=job.priority,
            message=job.message,
            work=job.work,
            brings_bytes=job.brings_bytes,
            leaves_bytes=job.leaves_bytes,
        )
        account.accept(record.job, now, job.brings_bytes, job.leaves_bytes)
        store.enter(record, job.work)
        store.records[job.id] = record
        if job.idempotency_key:
            store.used_keys[job.tenant, job.idempotency_key] = (job.digest, job.id)
        store.lists[record.list_name].insert(0, record.tagged)
        store.stats["submitted"] += 1
        return self._submitted(job)

    def _is_below_share(self, job: NewJob) -> bool:
        queue = job.placement.queue
        lists = [list_of(queue, priority) for priority in PRIORITIES]
        tenants = {r.job.tenant for name in lists for r in self.store.waiting(name)}
        own = self.store.num_queued(queue, job.tenant)
        return own < self._max_queue / len(tenants | {job.tenant})

    def _submitted(self, job: NewJob) -> Submitted:
        position = self._position(job.id, job.placement.queue) or 0
        account = self.store.accounts[job.tenant]
        stands = None if job.limits.is_empty else standing(account, job.limits, self.store.now())
        return Submitted(id=job.id, is_new=True, position=position, standing=stands)

    def _accept(self, job: NewJob) -> Job:
        now = self.store.now()
        return Job(
            id=job.id,
            tenant=job.tenant,
            request=job.request,
            placement=job.placement,
            status=JobStatus.QUEUED,
            created_at=now,
            trace=job.trace,
            deadline_at=None if job.deadline_s is None else round(now + job.deadline_s, 3),
        )

    def _depth(self, queue: str, *own: str) -> QueueDepth:
        lists = [list_of(name, p) for name in (queue, *own) for p in PRIORITIES]
        rows = [r for name in lists for r in self.store.waiting(name)]
        first = min((r.job.waits_since for r in rows), default=self.store.now())
        oldest_s = max(0.0, self.store.now() - first)
        return QueueDepth(
            queue=queue,
            waiting=len(rows),
            oldest_s=round(oldest_s, 3),
            later=sum(r.priority > PRIORITIES[0] for r in rows),
            tenants=dict(Counter(r.job.tenant for r in rows)),
        )

    def _record(self, job_id: str, tenant: str | None) -> Record:
        record = self.store.records.get(job_id)
        if record is None or (tenant and record.job.tenant != tenant):
            raise no_such_job(job_id)
        return record
