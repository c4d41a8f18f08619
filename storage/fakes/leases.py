"""In-memory fake of `LeaseStore`."""

import queue
from collections.abc import Iterator, Mapping
from dataclasses import replace

from core.codec import decode
from core.job import Claim, JobStatus, Progress
from storage.fakes.record import Record
from storage.fakes.store import MemoryStore
from storage.jobs.leases import NO_PREVIEWS, NO_PROGRESS, POST_PAUSE_S, Leases, Outcome
from storage.jobs.previews import Preview
from storage.jobs.record import tried_too_often
from storage.redis.keys import PRIORITIES, list_of


class MemoryLeases(Leases):
    """The claims of one worker, in memory."""

    def __init__(
        self,
        store: MemoryStore,
        *,
        worker: str = "worker",
        lease_s: float = 15.0,
        max_attempts: int = 0,
        device_type: str = "cpu",
    ) -> None:
        self.store = store
        self._worker = worker
        self._device_type = device_type
        self._lease_s = lease_s
        self._max_attempts = max_attempts
        self._fences: dict[str, int] = {}
        self.followed: dict[str, bool] = {}

    def claim(self, job_id: str, *, is_exact: bool = False, rung: str = "") -> Claim | None:
        with self.store.lock:
            named = self._named(job_id, "" if is_exact else rung)
            if named is None or named.job.status is not JobStatus.QUEUED:
                return None
            record = named if is_exact or rung else self._next_for(named)
            if self.store.is_over(record):
                self.store.close(record, JobStatus.EXPIRED)
                return None
            if 0 < self._max_attempts <= record.job.attempts:
                self.store.bury(record, tried_too_often(record.job))
                return None
            return self._take(record)

    def isolate(self, job_id: str, fence: int) -> bool:
        with self.store.lock:
            is_held = self._holds(job_id, fence)
            if is_held:
                self.store.records[job_id].alone = fence
            return is_held

    def credit(self, job_id: str, fence: int, furthest: int) -> bool:
        with self.store.lock:
            record = self.store.records.get(job_id)
            if record is None or not self._holds(job_id, fence) or furthest <= record.furthest:
                return False
            record.furthest = furthest
            if record.job.attempts > 1:
                record.job = replace(record.job, attempts=record.job.attempts - 1)
            return True

    def beat(
        self, held: Mapping[str, int], done: Mapping[str, Progress] = NO_PROGRESS
    ) -> list[str]:
        with self.store.lock:
            return self._renew(held, done, NO_PREVIEWS)

    def progress(
        self, done: Mapping[str, Progress], previews: Mapping[str, str] = NO_PREVIEWS
    ) -> None:
        with self.store.lock:
            held = {job_id: self._fences[job_id] for job_id in done if job_id in self._fences}
            self._renew(held, done, previews)

    def finish(self, job_id: str, fence: int, outcome: Outcome) -> bool:
        with self.store.lock:
            self._drop(job_id, fence)
            record = self.store.records.get(job_id)
            if record is not None and self._has_finished(record, fence, outcome):
                return True
            if record is None or not self._holds(job_id, fence):
                self.store.stats["fenced"] += 1
                return False
            record.finished_by, record.device_s = fence, outcome.device_s or record.device_s
            record.job = replace(
                record.job,
                images=outcome.images,
                failure=outcome.failure,
                placement=outcome.placement or record.job.placement,
            )
            self.store.close(record, outcome.status, outcome.timing)
            return True

    def release(self, held: Mapping[str, int]) -> int:
        with self.store.lock:
            mine = [job_id for job_id, fence in held.items() if self._holds(job_id, fence)]
            for job_id in mine:
                record = self.store.records[job_id]
                record.job = replace(record.job, attempts=record.job.attempts - 1)
                self.store.requeue(record, "released")
                self.store.emit(job_id, "status", {"status": "queued"})
            for job_id, fence in held.items():
                self._drop(job_id, fence)
            return len(mine)

    def forfeit(self, held: Mapping[str, int]) -> None:
        with self.store.lock:
            for job_id, fence in held.items():
                if self._holds(job_id, fence):
                    self.store.records[job_id].lease_until = self.store.now()

    def stops(self, timeout_s: float) -> Iterator[str]:
        while True:
            try:
                yield self.store.stops[self._worker].get(timeout=timeout_s)
            except queue.Empty:
                return

    def close(self) -> None:
        return None

    def _renew(
        self, held: Mapping[str, int], done: Mapping[str, Progress], previews: Mapping[str, str]
    ) -> list[str]:
        lost = [job_id for job_id, fence in held.items() if not self._holds(job_id, fence)]
        for job_id in lost:
            self._drop(job_id, held[job_id])
        for job_id in held.keys() - set(lost):
            record = self.store.records[job_id]
            record.lease_until = self.store.now() + self._lease_s
            if job_id in done:
                if job_id in previews:
                    self.store.previews[job_id] = decode(previews[job_id].encode(), Preview)
                self._advance(record, done[job_id], is_shown=job_id in previews)
            if self._fences.get(job_id) == held[job_id]:
                self._hear(record)
        return lost

    def _hear(self, record: Record) -> None:
        now, hook = self.store.now(), record.job.request.webhook
        is_posted = hook is not None and "progress" in hook.events
        self.followed.pop(record.job.id, None)
        if record.followed > now or is_posted:
            self.followed[record.job.id] = record.previewed > now

    def _named(self, job_id: str, queue: str) -> Record | None:
        """Find the job of a message, or whose turn it is on the queue that it stands for."""
        if not queue:
            return self.store.records.get(job_id)
        lists = (self.store.waiting(list_of(queue, priority)) for priority in PRIORITIES)
        return next((found[0] for found in lists if found), None)

    def _next_for(self, named: Record) -> Record:
        """Find whose turn it is where a message names a job, which is rung for again."""
        first = self.store.waiting(named.list_name)[0]
        if first.job.tenant == named.job.tenant:
            first.start, named.start = named.start, first.start
            return named
        messages = self.store.lists[named.list_name]
        if first.tagged in messages:
            messages.remove(first.tagged)
        self.store.ring(named)
        return first

    def _take(self, record: Record) -> Claim:
        job, now = record.job, self.store.now()
        self.store.leave(record, is_served=True)
        record.lease_until = now + self._lease_s
        record.job = replace(
            job,
            status=JobStatus.RUNNING,
            started_at=now,
            attempts=job.attempts + 1,
            fence=max(job.fence + 1, int(now * 1000)),
            worker=self._worker,
            progress=Progress(step=0, steps=job.progress.steps),
            timing=job.timing.measured(job.waits_since, now, None),
        )
        earlier = tuple(record.fences)
        record.fences.append(record.job.fence)
        record.device_type, record.device_s = self._device_type, 0.0
        record.rings = 0
        self.store.missing.pop(job.id, None)
        self._fences[job.id] = record.job.fence
        self._hear(record)
        data: dict[str, object] = {"status": "running", "attempts": record.job.attempts}
        self.store.emit(job.id, "status", data)
        self.store.post(record, "started", f"{job.id}:started:{record.job.attempts}", data)
        return Claim(
            job=record.job,
            fence=record.job.fence,
            lease_until=record.lease_until,
            earlier=earlier,
        )

    def _advance(self, record: Record, progress: Progress, *, is_shown: bool) -> None:
        job, now = record.job, self.store.now()
        record.job = replace(job, progress=progress)
        record.device_s = progress.device_s
        data: dict[str, object] = {"step": progress.step, "steps": progress.steps}
        is_news = progress.step != job.progress.step
        if record.followed > now and (is_news or is_shown):
            self.store.emit(job.id, "progress", data)
        if is_news and now - record.posted_at >= POST_PAUSE_S:
            record.posted_at = now
            name = f"{job.id}:progress:{job.fence}:{progress.step}"
            self.store.post(record, "progress", name, data)

    def _drop(self, job_id: str, fence: int) -> None:
        if self._fences.get(job_id) == fence:
            del self._fences[job_id]
            self.followed.pop(job_id, None)

    def _holds(self, job_id: str, fence: int) -> bool:
        record = self.store.records.get(job_id)
        return record is not None and (record.job.status, record.job.fence, record.job.worker) == (
            JobStatus.RUNNING,
            fence,
            self._worker,
        )

    def _has_finished(self, record: Record, fence: int, outcome: Outcome) -> bool:
        job = record.job
        done = (record.finished_by, job.worker, job.status)
        return done == (fence, self._worker, outcome.status)
