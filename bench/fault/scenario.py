"""Submit jobs to a service of real processes, do one fault to it, and see all jobs to their end."""

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from bench.fault.findings import Counting, Findings
from core.errors import NotFound, StoreUnavailable
from core.job import Job
from core.model import Model
from storage.jobs.integrity import check_integrity
from storage.jobs.jobs import JobStore
from storage.jobs.submit import NewJob
from storage.redis.connect import ask, connect
from storage.redis.keys import LEASES
from storage.redis.stats import read_stats
from tests.rig import SLOW, Rig, a_rig, new_job
from tests.servers import Server, redis_server

LEASE_S = 2.0


class Scenario(ABC):
    """One fault. A subclass says what is done in `disturb`, and whatever else differs."""

    workers: ClassVar[tuple[str, ...]] = ("w0", "w1")
    models: ClassVar[tuple[Model, ...]] = (SLOW,)
    env: ClassVar[Mapping[str, str]] = {}  #: settings of all processes that are not the rig's own
    patience_s: ClassVar[float] = 90.0  #: after the fault everything must have ended by then
    pause_s: ClassVar[float] = 0.15  #: at most, between two jobs
    steps: ClassVar[tuple[int, int]] = (10, 120)  #: fewest and most of a job, 10 ms each

    def __init__(self, rig: Rig, *, seed: int, is_quick: bool) -> None:
        self.rig = rig
        self.is_quick = is_quick
        self.random = random.Random(seed)
        self.redis = connect(rig.redis.url)
        self.store = JobStore(self.redis, max_queue=10_000)
        self.accepted: list[str] = []
        self.guilty: set[str] = set()  #: jobs that may fail
        self.findings = Findings()
        self.is_over = False  #: the fault

    @classmethod
    @contextmanager
    def service(cls, folder: Path) -> Iterator[Rig]:
        """Start the store and say how to start the rest; `start` does."""
        env = {"ATELIER_LEASE_S": str(LEASE_S), "ATELIER_MAX_ATTEMPTS": "10", **cls.env}
        with a_rig(folder, cls.start_store, models=cls.models, **env) as rig:
            yield rig

    @staticmethod
    def start_store(folder: Path) -> Server:
        """Start the Redis of this scenario."""
        return redis_server(folder)

    def start(self) -> None:
        """Start upkeep and workers; return once all serve."""
        self.rig.upkeep()
        for name in self.workers:
            self.rig.worker(name)
        for name in self.workers:
            self.rig.wait_for_worker(name)

    @abstractmethod
    async def disturb(self) -> None:
        """Do the fault; return when it is over."""

    async def run(self) -> Findings:
        """Submit, disturb, wait, count."""
        began = time.monotonic()
        await asyncio.gather(self.feed(), self._disturb())
        over_at = time.monotonic()
        await self._settle()
        self.findings.recovery_s = time.monotonic() - over_at
        await asyncio.sleep(LEASE_S * 1.5)  # whatever a zombie still wants to write, it has
        await self._count()
        self.findings.seconds = time.monotonic() - began
        await self.redis.aclose()
        return self.findings

    async def feed(self) -> None:
        """Submit jobs until the fault is over, and one after that."""
        while not self.is_over:
            await self.submit(self.a_job())
            await asyncio.sleep(self.random.uniform(0.0, self.pause_s))
        await self.submit(self.a_job())

    def a_job(self) -> NewJob:
        """Think of a job."""
        return new_job(steps=self.random.randint(*self.steps))

    async def submit(self, job: NewJob) -> None:
        """Submit until accepted."""
        while True:
            try:
                await self.store.submit([job])
                break
            except StoreUnavailable:  # perhaps stored: asked again with the same id
                await asyncio.sleep(0.1)
        self.accepted.append(job.id)

    async def busy_worker(self) -> str:
        """Choose a worker that holds jobs: a process that is still starting loses nothing."""
        for _ in range(100):
            for name in self.random.sample(self.workers, len(self.workers)):
                if await self._holds_jobs(name):
                    return name
            await asyncio.sleep(0.1)
        return self.random.choice(self.workers)

    def supervise(self) -> None:
        """Restart a worker that ended by itself, and count it."""
        for name in self.workers:
            if self.rig.processes[name].poll() is not None:
                self.findings.worker_exits += 1
                self.rig.worker(name)

    async def _disturb(self) -> None:
        try:
            await self.disturb()
        finally:
            self.is_over = True

    async def _holds_jobs(self, name: str) -> bool:
        try:
            for job_id in await ask(self.redis, "ZRANGE", LEASES, 0, -1):
                if (await self.store.get(job_id.decode())).worker == f"{name}@rig":
                    return True
        except (NotFound, StoreUnavailable, OSError):
            return False
        return False

    async def _settle(self) -> None:
        until = time.monotonic() + self.patience_s
        while time.monotonic() < until:
            self.supervise()
            jobs = [await self._job(job_id) for job_id in self.accepted]
            if all(job is None or job.status.is_terminal for job in jobs):
                return
            await asyncio.sleep(0.3)

    async def _job(self, job_id: str) -> Job | None:
        try:
            return await self.store.get(job_id)
        except NotFound:
            return None

    async def _count(self) -> None:
        objects = self.rig.folder / "data" / "objects"
        await Counting(self.redis, objects, self.findings).count(self.accepted, self.guilty)
        self.findings.stats = dict(await read_stats(self.redis))
        with self.rig.client() as client:
            self.findings.contradictions = len(check_integrity(client, is_quiet=True))


def run(kind: type[Scenario], folder: Path, *, seed: int = 0, is_quick: bool = True) -> Findings:
    """Start a service of our own, disturb it, and say what had become of its jobs."""
    with kind.service(folder) as rig:
        scenario = kind(rig, seed=seed, is_quick=is_quick)
        scenario.start()
        return asyncio.run(scenario.run())
