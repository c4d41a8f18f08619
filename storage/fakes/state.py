"""State that the in-memory fakes share, and a plain job's way through it, as in `submit.lua`."""

import asyncio
import json
import queue
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from core.application import Application
from core.boards.demand import ReportedDemand
from core.boards.fleet import QueueDepth, Worker
from core.boards.plan import Plan
from core.job import Job, JobEvent, JobStatus, Timing
from core.tenants.limits import DAY_S
from core.uploads.controlnet import KeptControlNet
from core.uploads.embedding import KeptEmbedding
from core.uploads.lora import KeptLora
from core.uploads.upload import Upload
from storage.fakes.account import Account, over, standing
from storage.fakes.record import Posted, Record
from storage.jobs.outbox import Delivery
from storage.jobs.record import key_reused, limit_reached, no_such_job, queue_full
from storage.jobs.submit import Answer, NewJob, Submitted
from storage.redis.keys import PRIORITIES, list_of

#: Before all turns: of jobs that come back, the oldest first.
AT_ONCE = -1e15


@dataclass
class StoreState:
    """One store's whole state, and the transitions of a job from its submit to its end."""

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
    #: Objects that are stored before their job: when that was noted, its id, their keys.
    expected: dict[str, tuple[float, str, tuple[str, ...]]] = field(default_factory=dict)
    notes: Iterator[int] = field(default_factory=count)  #: numbers what is expected
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

    def waiting(self, list_name: str) -> list[Record]:
        """List the queued jobs of one list, the next one first."""
        queued = [
            r
            for r in self.records.values()
            if r.job.status is JobStatus.QUEUED and r.list_name == list_name
        ]
        return sorted(queued, key=lambda r: (r.start or 0.0, r.job.id))

    def position(self, job_id: str, queue: str) -> int | None:
        """Count the jobs of its queue that are served before a job."""
        lists = [self.waiting(list_of(queue, priority)) for priority in PRIORITIES]
        ids = [record.job.id for waiting in lists for record in waiting]
        return ids.index(job_id) if job_id in ids else None

    def submit(self, jobs: Sequence[NewJob], max_queue: int) -> list[Answer]:
        """Accept jobs, or say why not."""
        with self.lock:
            return [self._submit(job, max_queue) for job in jobs]

    def _submit(self, job: NewJob, max_queue: int) -> Answer:
        queue = job.placement.queue
        if job.id in self.records:
            return self._submitted(job)
        used = self.used_keys.get((job.tenant, job.idempotency_key or ""))
        if job.idempotency_key and used is not None and used[1] in self.records:
            digest, job_id = used
            return Submitted(id=job_id, is_new=False) if digest == job.digest else key_reused()
        depth = self.depth(queue)
        if depth.waiting >= max_queue and not self._is_below_share(job, max_queue):
            self.stats["refused"] += 1
            return queue_full(queue, max(1.0, min(60.0, depth.oldest_s / 10)))
        account, now = self.accounts[job.tenant], self.now()
        num_bytes = job.brings_bytes + job.leaves_bytes
        name, wait_s = "", 0.0
        if not job.limits.is_empty:
            name, wait_s = over(account, job.limits, now, job.request.n, num_bytes)
        if name:
            self.stats["refused"] += 1
            return limit_reached(job.limits, name, wait_s, standing(account, job.limits, now))
        self.queues.add(queue)
        record = Record(
            job=self._accept(job),
            priority=job.priority,
            message=job.message,
            work=job.work,
            brings_bytes=job.brings_bytes,
            leaves_bytes=job.leaves_bytes,
        )
        account.kept_bytes += job.brings_bytes
        self.open_account(record)
        self.enter(record, job.work)
        self.records[job.id] = record
        if job.idempotency_key:
            self.used_keys[job.tenant, job.idempotency_key] = (job.digest, job.id)
        self.lists[record.list_name].insert(0, record.tagged)
        self.stats["submitted"] += 1
        return self._submitted(job)

    def _is_below_share(self, job: NewJob, max_queue: int) -> bool:
        queue = job.placement.queue
        lists = [list_of(queue, priority) for priority in PRIORITIES]
        tenants = {r.job.tenant for name in lists for r in self.waiting(name)}
        own = self.num_queued(queue, job.tenant)
        return own < max_queue / len(tenants | {job.tenant})

    def _submitted(self, job: NewJob) -> Submitted:
        position = self.position(job.id, job.placement.queue) or 0
        account = self.accounts[job.tenant]
        stands = None if job.limits.is_empty else standing(account, job.limits, self.now())
        return Submitted(id=job.id, is_new=True, position=position, standing=stands)

    def _accept(self, job: NewJob) -> Job:
        now = self.now()
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

    def depth(self, queue: str, *own: str) -> QueueDepth:
        """Say what waits on a queue, and on workers' own beside it."""
        lists = [list_of(name, p) for name in (queue, *own) for p in PRIORITIES]
        rows = [r for name in lists for r in self.waiting(name)]
        first = min((r.job.waits_since for r in rows), default=self.now())
        oldest_s = max(0.0, self.now() - first)
        return QueueDepth(
            queue=queue,
            waiting=len(rows),
            oldest_s=round(oldest_s, 3),
            later=sum(r.priority > PRIORITIES[0] for r in rows),
            tenants=dict(Counter(r.job.tenant for r in rows)),
        )

    def find(self, job_id: str, tenant: str | None = None) -> Record:
        """Find the record of a job. Raises: NotFound."""
        record = self.records.get(job_id)
        if record is None or (tenant and record.job.tenant != tenant):
            raise no_such_job(job_id)
        return record

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
        if not [r for r in self.waiting(name) if r is not record]:
            self.shares.pop(name, None)
        elif is_served and start is not None and start >= 0:
            kept = {who: at for who, at in self.shares[name].items() if at >= start}
            self.shares[name] = kept | {"": start}
        elif start is not None and start >= 0 and tenant in self.shares[name]:
            self.shares[name][tenant] -= record.work  # what it was given for others stays

    def num_queued(self, queue: str, tenant: str) -> int:
        """Count the jobs of one tenant that wait on a queue."""
        lists = [list_of(queue, priority) for priority in PRIORITIES]
        return sum(r.job.tenant == tenant for name in lists for r in self.waiting(name))

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
                tenant=record.job.tenant,
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

    def open_account(self, record: Record) -> None:
        """Count a job that is to be made."""
        account, job, now = self.accounts[record.job.tenant], record.job, self.now()
        account.open.add(job.id)
        account.promised_bytes += record.leaves_bytes
        account.charged[job.id] = int(now // DAY_S)
        account.day(now)["asked"] += job.request.n

    def _close_account(self, record: Record) -> None:
        """Count how a job has ended, once."""
        account, job, now = self.accounts[record.job.tenant], record.job, self.now()
        account.open.discard(job.id)
        account.promised_bytes -= record.leaves_bytes
        account.took_s += (now - job.waits_since - account.took_s) / 8
        today, device_ms = account.day(now), round(record.device_s * 1e3)
        today[f"jobs:{job.status}"] += 1
        if job.status is JobStatus.SUCCEEDED:
            today["images"] += job.request.n
            account.kept_bytes += sum(image.size_bytes for image in job.images)
        else:
            account.usage[account.charged[job.id]]["asked"] -= job.request.n
        if record.device_type and device_ms:
            today[f"gpu_ms:{record.device_type}"] += device_ms

    def _is_violation(self, job: Job, status: JobStatus) -> bool:
        slo_s = job.request.slo_s
        if slo_s is None or status is JobStatus.CANCELED:
            return False
        return status is not JobStatus.SUCCEEDED or self.now() - job.waits_since > slo_s

    def is_over(self, record: Record) -> bool:
        """Tell whether the deadline of a job has passed."""
        deadline_at = record.job.deadline_at
        return deadline_at is not None and self.now() >= deadline_at
