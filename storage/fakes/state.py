"""State that the in-memory fakes share, with the transitions of `prelude.lua`."""

import asyncio
import json
import queue
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from core.application import Application
from core.boards.demand import ReportedDemand
from core.boards.fleet import Worker
from core.boards.plan import Plan
from core.job import Failure, Job, JobEvent, JobStatus, Timing
from core.tenants.limits import DAY_S
from core.uploads.controlnet import KeptControlNet
from core.uploads.embedding import KeptEmbedding
from core.uploads.lora import KeptLora
from core.uploads.upload import Upload
from storage.fakes.record import Posted, Record
from storage.jobs.outbox import Delivery
from storage.redis.keys import PRIORITIES, list_of

#: Before all turns: of jobs that come back, the oldest first.
AT_ONCE = -1e15


@dataclass(slots=True)
class Account:
    """What one tenant has open, keeps and has used."""

    open: set[str] = field(default_factory=set)
    kept_bytes: int = 0
    promised_bytes: int = 0
    full_at: float = 0.0  #: epoch s, when all jobs at once may come again
    told: float = 0.0  #: epoch s, the moment that the last one was told
    told_open: float = 0.0
    took_s: float = 0.0  #: from acceptance to end, smoothed
    charged: dict[str, int] = field(default_factory=dict)  #: job -> day that its images count on
    usage: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  #: by day

    def day(self, now: float) -> Counter[str]:
        """Give what is counted today."""
        return self.usage[int(now // DAY_S)]

    def accept(self, job: Job, now: float, brings_bytes: int, leaves_bytes: int) -> None:
        """Count a job that is to be made."""
        self.open.add(job.id)
        self.kept_bytes += brings_bytes
        self.promised_bytes += leaves_bytes
        self.charged[job.id] = int(now // DAY_S)
        self.day(now)["asked"] += job.request.n

    def close(self, job: Job, now: float, leaves_bytes: int) -> None:
        """Count how a job has ended."""
        self.open.discard(job.id)
        self.promised_bytes -= leaves_bytes
        self.took_s += (now - job.waits_since - self.took_s) / 8
        today = self.day(now)
        today[f"jobs:{job.status}"] += 1
        if job.status is JobStatus.SUCCEEDED:
            today["images"] += job.request.n
            self.kept_bytes += sum(image.size_bytes for image in job.images)
        else:
            self.usage[self.charged[job.id]]["asked"] -= job.request.n

    def reopen(self, job: Job, now: float, leaves_bytes: int) -> None:
        """Take back that a job had failed."""
        self.usage[int((job.finished_at or now) // DAY_S)]["jobs:failed"] -= 1
        self.accept(job, now, 0, leaves_bytes)


@dataclass
class MemoryStore:
    """One store's whole state; hand the same one to every fake that shall see it."""

    clock: Callable[[], float] = time.time
    lock: threading.RLock = field(default_factory=threading.RLock)
    records: dict[str, Record] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    queues: set[str] = field(default_factory=set)
    missing: dict[str, float] = field(default_factory=dict)
    shares: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    used_keys: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    events: dict[str, list[JobEvent]] = field(default_factory=lambda: defaultdict(list))
    previews: dict[str, dict[str, object]] = field(default_factory=dict)  #: the last, by job id
    last_event: int = 0  #: number of the latest event of any job
    outbox: dict[str, Posted] = field(default_factory=dict)
    dead: dict[str, Posted] = field(default_factory=dict)
    stats: Counter[str] = field(default_factory=Counter)
    stops: dict[str, queue.SimpleQueue[str]] = field(
        default_factory=lambda: defaultdict(queue.SimpleQueue)
    )
    uploads: dict[str, Upload | KeptLora | KeptControlNet | KeptEmbedding] = field(
        default_factory=dict
    )
    applications: dict[str, Application] = field(default_factory=dict)  #: by key
    tables: dict[str, dict[str, Any]] = field(default_factory=lambda: defaultdict(dict))
    versions: dict[str, str] = field(default_factory=dict)  #: of tables that were ever written
    accounts: dict[str, Account] = field(default_factory=lambda: defaultdict(Account))  #: by tenant
    fleet: dict[str, Worker] = field(default_factory=dict)
    plan: Plan | None = None
    demand: dict[str, tuple[float, ReportedDemand]] = field(default_factory=dict)  #: by scheduler
    leaders: dict[str, tuple[str, int, float]] = field(default_factory=dict)
    fences: Counter[str] = field(default_factory=Counter)
    bells: list[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = field(default_factory=list)

    def now(self) -> float:
        """Tell the time as the store does: epoch s, to the millisecond."""
        return round(self.clock(), 3)

    def pop(self, queue_name: str) -> str | None:
        """Take the next message of a queue, as kombu does."""
        with self.lock:
            for priority in PRIORITIES:
                messages = self.lists[list_of(queue_name, priority)]
                if messages:
                    return messages.pop()
            return None

    def waiting(self, list_name: str) -> list[Record]:
        """List the queued jobs of one list, the next one first."""
        queued = [
            r
            for r in self.records.values()
            if r.job.status is JobStatus.QUEUED and r.list_name == list_name
        ]
        return sorted(queued, key=lambda r: (r.start or 0.0, r.job.id))

    def enter(self, record: Record, work: float | None = None) -> None:
        """Give a queued job its turn: after its tenant's others, without work at once."""
        if work is None:
            record.start = AT_ONCE + record.job.waits_since * 1000
            return
        shares, tenant = self.shares[record.list_name], record.job.tenant
        record.start = max(shares.get("", 0.0), shares.get(tenant, 0.0))
        shares[tenant] = record.start + work

    def leave(self, record: Record, *, is_served: bool) -> None:
        """Take a job out of its line, and remember how far its list is served."""
        start, record.start = record.start, None
        name, tenant = record.list_name, record.job.tenant
        if not is_served and self.num_queued(record.job.placement.queue, tenant) <= 1:
            self.shares[name].pop(tenant, None)
        if not [r for r in self.waiting(name) if r is not record]:
            self.shares.pop(name, None)
        elif is_served and start is not None and start >= 0:
            kept = {who: at for who, at in self.shares[name].items() if at >= start}
            self.shares[name] = kept | {"": start}

    def num_queued(self, queue: str, tenant: str) -> int:
        """Count the jobs of one tenant that wait on a queue."""
        lists = [list_of(queue, priority) for priority in PRIORITIES]
        return sum(r.job.tenant == tenant for name in lists for r in self.waiting(name))

    def held(self, worker: str | None) -> list[Record]:
        """List what one worker has claimed and not ended."""
        running = (r for r in self.records.values() if r.job.status is JobStatus.RUNNING)
        return [record for record in running if record.job.worker == worker]

    def emit(self, job_id: str, event: str, data: dict[str, object]) -> None:
        """Append an event to a job's stream, and wake its followers."""
        stream = self.events[job_id]
        self.last_event = max(self.last_event + 1, int(self.now() * 1000))
        stream.append(JobEvent(id=f"{self.last_event}-0", event=event, data=data))
        for followed, loop, bell in list(self.bells):
            if followed == job_id:
                loop.call_soon_threadsafe(bell.set)

    def post(self, record: Record, event: str, name: str, data: dict[str, object]) -> None:
        """Put a webhook in the outbox if the job asked for this event."""
        hook = record.job.request.webhook
        if hook is not None and event in hook.events:
            name = record.of_life(name)
            delivery = Delivery(
                id=name,
                job_id=record.job.id,
                url=hook.url,
                event=event,
                attempt=0,
                body=json.dumps(data, separators=(",", ":")),
            )
            self.outbox[name] = Posted(delivery=delivery, at=self.now())

    def withdraw(self, record: Record) -> None:
        """Take a queued job from its list."""
        self.leave(record, is_served=False)
        messages = self.lists[record.list_name]
        if record.tagged in messages:
            messages.remove(record.tagged)
        self.missing.pop(record.job.id, None)

    def close(self, record: Record, status: JobStatus, timing: Timing | None = None) -> None:
        """End a job: the one place where it becomes terminal."""
        job = record.job
        if job.status is JobStatus.QUEUED:
            self.withdraw(record)
        now = self.now()
        filled = (timing or Timing()).measured(job.waits_since, job.started_at, now)
        record.job = replace(job, status=status, finished_at=now, timing=filled, is_suspect=False)
        record.alone, record.verdict = None, None
        record.finishes += 1
        self._close_account(record)
        self.stats.update(["finished", f"jobs:{job.request.task}:{status}"])
        if status is JobStatus.SUCCEEDED:
            self.stats[f"level:{job.placement.level}"] += 1
        if self._is_violation(job, status):
            self.stats["slo_violations"] += 1
        data: dict[str, object] = {"status": status.value}
        self.emit(job.id, "done", data)
        self.post(record, "completed", f"{job.id}:completed", data)

    def _close_account(self, record: Record) -> None:
        """Count how a job has ended, once."""
        account, job = self.accounts[record.job.tenant], record.job
        account.close(job, self.now(), record.leaves_bytes)
        device_ms = round(record.device_s * 1e3)
        if record.device_type and device_ms:
            day = account.day(self.now())
            day[f"gpu_ms:{record.device_type}"] += device_ms

    def _is_violation(self, job: Job, status: JobStatus) -> bool:
        slo_s = job.request.slo_s
        if slo_s is None or status is JobStatus.CANCELED:
            return False
        return status is not JobStatus.SUCCEEDED or self.now() - job.waits_since > slo_s

    def ring(self, record: Record) -> None:
        """Put a message of a job on its list, where it is popped next."""
        record.publication += 1
        self.lists[record.list_name].append(record.tagged)

    def requeue(self, record: Record, reason: str, work: float | None = None) -> None:
        """Put a job back on its list: at its turn if it has one, with work at a new one."""
        record.job = replace(record.job, status=JobStatus.QUEUED)
        record.device_s = 0.0
        self.missing.pop(record.job.id, None)
        if record.start is None:
            self.enter(record, work)
        self.ring(record)
        self.stats[reason] += 1

    def bury(self, record: Record, failure: Failure) -> None:
        """Fail a job that has been tried too often, and index it."""
        self.stats["jobs_dead"] += 1
        record.job = replace(record.job, failure=failure, is_buried=True)
        self.close(record, JobStatus.FAILED)

    def forget(self, record: Record) -> None:
        """Delete a job that has ended; its bytes are kept no more."""
        job = record.job
        kept_bytes = sum(image.size_bytes for image in job.images)
        self.accounts[job.tenant].kept_bytes -= record.brings_bytes + kept_bytes
        del self.records[job.id]
        self.events.pop(job.id, None)

    def stop(self, record: Record) -> None:
        """Tell the worker of a job to stop it."""
        if record.job.worker is not None:
            self.stops[record.job.worker].put(record.job.id)

    def is_over(self, record: Record) -> bool:
        """Tell whether the deadline of a job has passed."""
        deadline_at = record.job.deadline_at
        return deadline_at is not None and self.now() >= deadline_at
