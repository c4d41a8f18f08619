"""One store under test: the fake or a real server, behind the same few names."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import redis
import redis.asyncio
from sqlalchemy import Engine

from core.boards.fleet import Worker
from core.job import Edit, JobRequest, JobStatus, WebhookTarget
from core.placement import Placement, own_queue_of, queue_of
from core.uploads.lora import KeptLora
from core.uploads.upload import Upload
from storage import fakes as memory
from storage.archive.archive import NO_ARCHIVE
from storage.archive.mover import Mover
from storage.archive.sql import SqlArchive
from storage.boards import fleet
from storage.boards.classifiers import ClassifierBoard, Classifiers
from storage.boards.demand import DemandBoard, Peers
from storage.boards.fleet import Leadership, Leads, PlanBoard, Plans
from storage.boards.fleet_changes import FleetChanges, FleetReader
from storage.boards.history import HistoryBoard, ServiceHistory
from storage.boards.scores import Scores, ScoreStream
from storage.jobs.events import EventHub, Events
from storage.jobs.integrity import check_integrity
from storage.jobs.jobs import Jobs, JobStore
from storage.jobs.leases import Leases, LeaseStore
from storage.jobs.outbox import Deliveries, Outbox
from storage.jobs.submit import TAG, ExpectedJobs, NewJob
from storage.jobs.sweeps import Sweeper, Upkeep
from storage.redis.keys import BEATS, PRIORITIES, job_key, list_of
from storage.redis.stats import read_stats
from storage.tenants.applications import Applications, ApplicationStore
from storage.tenants.audit import AuditStream, AuditTrail
from storage.tenants.key import TenantKey
from storage.tenants.table import TableStore, VersionedTable
from storage.tenants.uploads import Uploads, UploadStore
from storage.tenants.usage import TenantUsage, UsageStore
from tasks.upkeep.orphaned_inputs import Notes

MAX_QUEUE = 50
MAX_UPLOADS = 5
MAX_SCORES = 4
MAX_SAMPLES = 3
MAX_APPLICATIONS = 3
MAX_DEAD = 3
MAX_PENDING = 40


class House(ABC):
    """What the contract suite may do to a store."""

    jobs: Jobs
    events: Events
    outbox: Deliveries
    board: Plans
    uploads: Uploads[Upload]
    loras: Uploads[KeptLora]
    scores: Scores
    history: ServiceHistory
    classifiers: Classifiers
    applications: Applications
    keys: VersionedTable[TenantKey]
    usage: TenantUsage
    audit: AuditTrail
    expected: Notes

    @abstractmethod
    def leases(
        self, worker: str = "w1", lease_s: float = 60.0, max_attempts: int = 0
    ) -> Leases: ...
    @abstractmethod
    def sweeper(self, max_attempts: int = 3) -> Upkeep: ...
    @abstractmethod
    def leadership(self, owner: str, ttl_s: float = 60.0, matter: str = "upkeep") -> Leads: ...
    @abstractmethod
    def peer(self, owner: str, stale_s: float = 60.0) -> Peers: ...
    @abstractmethod
    def report(self, worker: Worker) -> None: ...
    @abstractmethod
    def retire(self, name: str) -> None: ...
    @abstractmethod
    async def fleet(self, stale_s: float) -> list[Worker]: ...
    @abstractmethod
    def fleet_reader(self, stale_s: float = 10.0) -> FleetChanges: ...
    @abstractmethod
    def fall_silent(self, worker: str, seconds: float) -> None:
        """Have a worker's last report come so much earlier."""

    @abstractmethod
    def pass_deadline(self, job_id: str) -> None:
        """Have a job's deadline be long ago."""

    @abstractmethod
    def pop(self, queue: str) -> str | None: ...
    @abstractmethod
    def messages(self, queue: str) -> list[str]: ...
    @abstractmethod
    async def stats(self) -> Mapping[str, int]: ...
    @abstractmethod
    def lose(self, *patterns: str) -> None:
        """Delete every key that matches; the fake has lists and queues alone to lose."""

    @abstractmethod
    def problems(self) -> list[str]: ...
    @abstractmethod
    async def close(self) -> None: ...


class MemoryHouse(House):
    def __init__(self) -> None:
        self.store = memory.MemoryStore()
        self.jobs = memory.MemoryJobs(self.store, max_queue=MAX_QUEUE)
        self.events = memory.MemoryEvents(self.store)
        most = {"max_dead": MAX_DEAD, "max_pending": MAX_PENDING}
        self.outbox = memory.MemoryOutbox(self.store, **most)
        self.board = memory.MemoryBoard(self.store)
        self.uploads = memory.MemoryUploads(Upload, self.store, max_uploads=MAX_UPLOADS)
        self.loras = memory.MemoryUploads(KeptLora, self.store, max_uploads=MAX_UPLOADS)
        self.scores = memory.MemoryScores(self.store, max_scores=MAX_SCORES)
        self.history = memory.MemoryHistory(max_samples=MAX_SAMPLES)
        self.classifiers = memory.MemoryClassifiers()
        self.applications = memory.MemoryApplications(self.store, max_applications=MAX_APPLICATIONS)
        self.usage = memory.MemoryUsage(self.store)
        self.audit = memory.MemoryAudit(self.store)
        self.expected = memory.MemoryExpectedJobs(self.store)
        self.keys = memory.MemoryTable(self.store, "keys", lambda key: key.id)

    def leases(self, worker: str = "w1", lease_s: float = 60.0, max_attempts: int = 0) -> Leases:
        options = {"worker": worker, "lease_s": lease_s, "max_attempts": max_attempts}
        return memory.MemoryLeases(self.store, **options)  # type: ignore[arg-type]

    def sweeper(self, max_attempts: int = 3) -> Upkeep:
        return memory.MemorySweeper(self.store, max_attempts=max_attempts)

    def leadership(self, owner: str, ttl_s: float = 60.0, matter: str = "upkeep") -> Leads:
        return memory.MemoryLeadership(self.store, matter, owner, ttl_s)

    def peer(self, owner: str, stale_s: float = 60.0) -> Peers:
        return memory.MemoryDemand(self.store, owner, stale_s=stale_s)

    def report(self, worker: Worker) -> None:
        memory.MemoryFleet(self.store).report(worker)

    def retire(self, name: str) -> None:
        memory.MemoryFleet(self.store).retire(name)

    async def fleet(self, stale_s: float) -> list[Worker]:
        return await memory.MemoryFleet(self.store).read(stale_s)

    def fleet_reader(self, stale_s: float = 10.0) -> FleetChanges:
        return memory.MemoryFleetReader(self.store, stale_s=stale_s)

    def fall_silent(self, worker: str, seconds: float) -> None:
        last = self.store.fleet[worker]
        self.store.fleet[worker] = replace(last, beat_at=last.beat_at - seconds)

    def pass_deadline(self, job_id: str) -> None:
        record = self.store.records[job_id]
        record.job = replace(record.job, deadline_at=1.0)

    def pop(self, queue: str) -> str | None:
        return self.store.pop(queue)

    def messages(self, queue: str) -> list[str]:
        return [m for p in PRIORITIES for m in self.store.lists[list_of(queue, p)]]

    async def stats(self) -> Mapping[str, int]:
        return dict(self.store.stats)

    def lose(self, *patterns: str) -> None:
        if "queues" in patterns:
            self.store.queues.clear()
        if "gen.*" in patterns:
            self.store.lists.clear()

    def problems(self) -> list[str]:
        return [
            f"{r.job.id}: {r.job.status} has ended {r.finishes} times"
            for r in self.store.records.values()
            if r.finishes != int(r.job.status.is_terminal)
        ]

    async def close(self) -> None:
        return None


class RedisHouse(House):
    def __init__(self, client: "redis.asyncio.Redis", sync: redis.Redis) -> None:
        self.client, self.sync = client, sync
        self.jobs = JobStore(client, max_queue=MAX_QUEUE)
        self.events = EventHub(client)
        self.outbox = Outbox(client, max_dead=MAX_DEAD, max_pending=MAX_PENDING)
        self.board = PlanBoard(client)
        self.uploads = UploadStore(client, Upload, max_uploads=MAX_UPLOADS)
        self.loras = UploadStore(client, KeptLora, max_uploads=MAX_UPLOADS)
        self.scores = ScoreStream(client, max_scores=MAX_SCORES)
        self.history = HistoryBoard(client, max_samples=MAX_SAMPLES)
        self.classifiers = ClassifierBoard(client)
        self.applications = ApplicationStore(client, max_applications=MAX_APPLICATIONS)
        self.usage = UsageStore(client)
        self.audit = AuditStream(client)
        self.expected = ExpectedJobs(client, NO_ARCHIVE)
        self.keys = TableStore(client, "keys", TenantKey, lambda key: key.id)
        self._leases: list[LeaseStore] = []

    def leases(self, worker: str = "w1", lease_s: float = 60.0, max_attempts: int = 0) -> Leases:
        leases = LeaseStore(self.sync, worker=worker, lease_s=lease_s, max_attempts=max_attempts)
        self._leases.append(leases)
        return leases

    def sweeper(self, max_attempts: int = 3) -> Upkeep:
        return Sweeper(self.client, max_attempts=max_attempts)

    def leadership(self, owner: str, ttl_s: float = 60.0, matter: str = "upkeep") -> Leads:
        return Leadership(self.client, matter, owner, ttl_s)

    def peer(self, owner: str, stale_s: float = 60.0) -> Peers:
        return DemandBoard(self.client, owner, stale_s=stale_s)

    def report(self, worker: Worker) -> None:
        fleet.Reporter(self.sync).report(worker)

    def retire(self, name: str) -> None:
        fleet.retire(self.sync, name)

    async def fleet(self, stale_s: float) -> list[Worker]:
        return await fleet.read_fleet(self.client, stale_s)

    def fleet_reader(self, stale_s: float = 10.0) -> FleetChanges:
        return FleetReader(self.client, stale_s=stale_s)

    def fall_silent(self, worker: str, seconds: float) -> None:
        self.sync.zincrby(BEATS, -1000 * seconds, worker)

    def pass_deadline(self, job_id: str) -> None:
        self.sync.hset(job_key(job_id), "deadline_at", 1000)
        self.sync.zadd("deadlines", {job_id: 1000})

    def pop(self, queue: str) -> str | None:
        for priority in PRIORITIES:
            message = self.sync.rpop(list_of(queue, priority))
            if isinstance(message, bytes):
                return message.decode()
        return None

    def messages(self, queue: str) -> list[str]:
        names = [list_of(queue, priority) for priority in PRIORITIES]
        return [m.decode() for name in names for m in self.sync.lrange(name, 0, -1)]  # type: ignore[union-attr]

    async def stats(self) -> Mapping[str, int]:
        return await read_stats(self.client)

    def lose(self, *patterns: str) -> None:
        for pattern in patterns:
            for key in self.sync.scan_iter(match=pattern, count=1000):
                self.sync.delete(key)

    def problems(self) -> list[str]:
        return check_integrity(self.sync)

    async def close(self) -> None:
        for leases in self._leases:
            leases.close()
        await self.events.close()
        await self.client.aclose()
        self.sync.close()


class ArchivingHouse(RedisHouse):
    """Where every job that has ended is in the archive before anybody asks again."""

    def __init__(
        self,
        client: "redis.asyncio.Redis",
        sync: redis.Redis,
        engine: Engine,
        *,
        after_s: float = 0,
    ) -> None:
        super().__init__(client, sync)
        self.engine = engine
        self.archive = SqlArchive(engine)
        self.mover = Mover(sync, engine, after_s=after_s)
        jobs = JobStore(client, max_queue=MAX_QUEUE, archive=self.archive)
        self.jobs = cast(Jobs, AfterMoving(jobs, self.mover))
        self.events = EventHub(client, self.archive)
        self.expected = ExpectedJobs(client, self.archive)

    def sweeper(self, max_attempts: int = 3) -> Upkeep:
        sweeper = Sweeper(self.client, max_attempts=max_attempts, archive=self.archive)
        return cast(Upkeep, AfterMoving(sweeper, self.mover))

    def problems(self) -> list[str]:
        return check_integrity(self.sync, archived=self.archive.count_bytes())

    async def close(self) -> None:
        await super().close()
        self.archive.close()


class AfterMoving:
    """Moves what has ended to the archive before each call."""

    def __init__(self, wrapped: object, mover: Mover) -> None:
        self._wrapped, self._mover = wrapped, mover

    def __getattr__(self, name: str) -> object:
        asked = getattr(self._wrapped, name)

        async def call(*args: object, **options: object) -> object:
            self._mover.run()
            return await asked(*args, **options)

        return call


def sent(job: NewJob, worker: str) -> NewJob:
    """Send a job to one worker."""
    placement = replace(job.placement, queue=own_queue_of(job.placement.queue, worker))
    return replace(job, placement=placement)


def new_job(
    job_id: str = "j1",
    *,
    tenant: str = "t",
    model: str = "m",
    priority: int = 0,
    deadline_s: float | None = None,
    key: str | None = None,
    digest: str = "d",
    hook: tuple[str, ...] = (),
    n: int = 1,
    edit: Edit | None = None,
) -> NewJob:
    target = WebhookTarget(url="https://client.example/hook", events=hook) if hook else None
    request = JobRequest(
        prompt="a red circle — ünïcode",
        model=model,
        width=64,
        height=64,
        steps=4,
        guidance=5.0,
        seed=7,
        n=n,
        edit=edit,
        webhook=target,
        metadata={"order": "42%1"},
    )
    return NewJob(
        id=job_id,
        tenant=tenant,
        request=request,
        placement=Placement(queue=queue_of(model), model=model, level=f"{model}@0"),
        deadline_s=deadline_s,
        message=message_of(job_id),
        priority=priority,
        idempotency_key=key,
        digest=digest,
        work=request.work,
    )


def message_of(job_id: str) -> str:
    return json.dumps({"id": job_id, "tag": TAG})


def id_of(message: str | None) -> str | None:
    return None if message is None else str(json.loads(message)["id"])


def moved(job: NewJob, model: str) -> Placement:
    return replace(job.placement, queue=queue_of(model), model=model, level=f"{model}@0")


async def statuses(house: House, *ids: str) -> list[JobStatus]:
    return [(await house.jobs.get(job_id)).status for job_id in ids]
