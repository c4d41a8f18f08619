"""In-memory fake of `Sweeper`."""

from collections.abc import Sequence, Set
from dataclasses import replace

from core.job import Failure, JobRequest, JobStatus
from core.placement import Placement, is_own
from storage.fakes.record import Record, objects_of
from storage.fakes.store import MemoryStore
from storage.jobs.record import tried_too_often, undeliverable
from storage.jobs.sweeps import MAX_PUBLICATIONS, Finished, Old, Reaped, Upkeep
from storage.redis.keys import PRIORITIES, list_of


class MemorySweeper(Upkeep):
    """The sweeps over one memory store."""

    def __init__(self, store: MemoryStore, *, max_attempts: int = 3) -> None:
        self.store = store
        self._max_attempts = max_attempts

    async def reap(self) -> Reaped:
        with self.store.lock:
            now = self.store.now()
            late = [r for r in self._having(JobStatus.RUNNING) if r.lease_until <= now]
            for record in late:
                self._reap(record)
            back = tuple(r.job.id for r in late if r.job.status is JobStatus.QUEUED)
            ended = tuple(r.job.id for r in late if r.job.status.is_terminal)
            return Reaped(back=back, ended=ended)

    async def republish(self, stale_s: float) -> list[str]:
        with self.store.lock:
            queued = self._having(JobStatus.QUEUED)
            missing = [r for r in queued if self._is_missing(r, stale_s)]
            back = [r.job.id for r in missing if self._republish(r)]
            self._forget_queues()
            return back

    async def expire(self) -> list[str]:
        with self.store.lock:
            late = [
                r
                for r in self.store.records.values()
                if not r.job.status.is_terminal and self.store.is_over(r)
            ]
            for record in late:
                if record.job.status is JobStatus.RUNNING:
                    self.store.stop(record)
                self.store.close(record, JobStatus.EXPIRED)
            return [r.job.id for r in late]

    async def find_old(self, retention_s: float) -> list[Old]:
        with self.store.lock:
            before = self.store.now() - retention_s
            records = self.store.records.values()
            return [
                Old(id=r.job.id, keys=objects_of(r))
                for r in records
                if r.job.finished_at and r.job.finished_at <= before
            ]

    async def find_old_of(
        self, tenant: str, retention_s: float, skip: int
    ) -> tuple[int, list[Old]]:
        with self.store.lock:
            before = self.store.now() - retention_s
            records = [r for r in self.store.records.values() if r.job.tenant == tenant]
            seen = sorted(records, key=lambda r: (r.job.created_at, r.job.id))
            seen = [r for r in seen if r.job.created_at <= before][skip:]
            old = [r for r in seen if r.job.finished_at and r.job.finished_at <= before]
            return len(seen), [Old(id=r.job.id, keys=objects_of(r)) for r in old]

    async def find_finished(self, since: float, limit: int) -> list[Finished]:
        with self.store.lock:
            ended = [(r.job.finished_at, r.job.id) for r in self.store.records.values()]
            late = sorted(((at, name) for at, name in ended if at and at > since), reverse=True)
            return [Finished(id=name, at=at) for at, name in late[:limit]]

    async def find_latencies(self, since: float, limit: int) -> list[float]:
        found = await self.find_finished(since, limit)
        jobs = [(each.at, self.store.records[each.id].job) for each in found]
        return [
            round(at - job.waits_since, 3) for at, job in jobs if job.status is JobStatus.SUCCEEDED
        ]

    async def forget(self, ids: Sequence[str]) -> int:
        with self.store.lock:
            ended = [i for i in ids if i in self.store.records and self._has_ended(i)]
            for job_id in ended:
                self.store.forget(self.store.records[job_id])
            return len(ended)

    async def rebuild(self, share: float) -> int:
        """Enter the queues of jobs; this fake keeps no other index beside its records."""
        with self.store.lock:
            queues = {r.job.placement.queue for r in self._having(JobStatus.QUEUED)}
            missing = queues - self.store.queues
            self.store.queues |= missing
            return len(missing)

    async def rescue(self, served: Set[str]) -> list[str]:
        with self.store.lock:
            lists = [list_of(q, p) for q in sorted(self.store.queues - served) for p in PRIORITIES]
            return [r.job.id for name in lists for r in self.store.waiting(name)]

    async def move(
        self, job_id: str, request: JobRequest, placement: Placement, message: str
    ) -> bool:
        with self.store.lock:
            record = self.store.records.get(job_id)
            if record is None or record.job.status is not JobStatus.QUEUED:
                return False
            self.store.withdraw(record)
            record.job = replace(record.job, request=request, placement=placement)
            record.message = message
            self.store.requeue(record, "rescued", record.work)
            return True

    async def give_up(self, job_id: str, failure: Failure) -> bool:
        with self.store.lock:
            record = self.store.records.get(job_id)
            if record is None or record.job.status is not JobStatus.QUEUED:
                return False
            self.store.bury(record, failure)
            return True

    def _has_ended(self, job_id: str) -> bool:
        return self.store.records[job_id].job.status.is_terminal

    def _having(self, status: JobStatus) -> list[Record]:
        return [r for r in self.store.records.values() if r.job.status is status]

    def _reap(self, record: Record) -> None:
        kind = self._judge(record)
        self.store.stop(record)
        if self.store.is_over(record):
            self.store.close(record, JobStatus.EXPIRED)
        elif kind == "own" and record.job.attempts >= self._max_attempts:
            self.store.bury(record, tried_too_often(record.job))
        else:
            self._put_back(record, kind)

    def _judge(self, record: Record) -> str:
        """Say whether a lost worker is a job's own doing, and tell the others that it held."""
        is_alone = record.alone == record.job.fence
        if record.verdict and record.verdict[0] == record.job.fence and not is_alone:
            return record.verdict[1]
        others = [r for r in self.store.held(record.job.worker) if r is not record]
        has_culprit = any(each.alone == each.job.fence for each in (record, *others))
        theirs = "spared" if has_culprit else "shared"
        for other in others:
            other.verdict = (other.job.fence, theirs)
        return "own" if is_alone or not others else theirs

    def _put_back(self, record: Record, kind: str) -> None:
        job = record.job
        record.job = replace(
            job,
            attempts=job.attempts - (kind != "own"),
            is_suspect=job.is_suspect or kind != "spared",
        )
        self.store.requeue(record, "reaped")
        self.store.emit(job.id, "status", {"status": "queued"})

    def _forget_queues(self) -> None:
        """Forget workers' own queues that are empty."""
        waiting = {r.job.placement.queue for r in self._having(JobStatus.QUEUED)}
        lists, own = self.store.lists, set(filter(is_own, self.store.queues - waiting))
        rung = {queue for queue in own if any(lists[list_of(queue, p)] for p in PRIORITIES)}
        self.store.queues -= own - rung

    def _is_missing(self, record: Record, stale_s: float) -> bool:
        if record.tagged in self.store.lists[record.list_name]:
            self.store.missing.pop(record.job.id, None)
            return False
        now = self.store.now()
        return now - self.store.missing.setdefault(record.job.id, now) >= stale_s

    def _republish(self, record: Record) -> bool:
        record.rings += 1
        if record.rings >= MAX_PUBLICATIONS:
            self.store.bury(record, undeliverable(record.rings))
            return False
        self.store.requeue(record, "republished")
        return True
