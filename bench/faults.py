"""What survives when processes die: kill -9 of workers, stalls past the lease, kill -9 of Redis.

Claims: every accepted job ends exactly once, with the images of the claim that won; nothing a
stalled worker made for a lost claim is published; no worker ends because the broker did.
"""

import asyncio
import hashlib
import random
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import typer

from bench.report import Figure, at_most, finish, machine, plain
from core.errors import NotFound, StoreUnavailable
from core.job import Job, JobStatus
from storage.connect import ask, connect
from storage.integrity import check_integrity
from storage.jobs import JobStore, NewJob
from storage.keys import LEASES, job_key
from storage.stats import read_stats
from tests.rig import Rig, a_rig, new_job

WORKERS = ("w0", "w1")
LEASE_S = 2.0
PATIENCE_S = 90.0  #: after the last fault everything must have ended by then


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What is done to the service, and how much it has to do meanwhile."""

    jobs: int
    kills: int  #: kill -9 of a worker
    stalls: int  #: SIGSTOP of a worker past its lease, then SIGCONT
    redis_kills: int  #: kill -9 of the Redis server
    seed: int = 0

    @property
    def count(self) -> int:
        return self.kills + self.stalls + self.redis_kills


@dataclass(slots=True, kw_only=True)
class Findings:
    """What had become of the jobs in the end."""

    accepted: int = 0
    lost: int = 0  #: accepted, but no record
    unended: int = 0
    ended_again: int = 0  #: more than one transition to a terminal status
    not_succeeded: int = 0
    stale: int = 0  #: published images that are not those of the last claim
    broken: int = 0  #: published images whose bytes are not what the record says
    worker_exits: int = 0  #: without our doing
    contradictions: int = 0  #: between records, indexes and lists
    seconds: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    stats: dict[str, int] = field(default_factory=dict)


class Storm:
    """One run: jobs come in while processes die."""

    def __init__(self, rig: Rig, faults: Faults) -> None:
        self._rig = rig
        self._faults = faults
        self._random = random.Random(faults.seed)
        self._redis = connect(rig.redis.url)
        self._store = JobStore(self._redis, max_queue=10_000)
        self._done = 0  #: faults so far
        self.accepted: list[str] = []
        self.findings = Findings()

    async def run(self) -> Findings:
        """Submit, disturb, wait, count."""
        began = time.monotonic()
        await asyncio.gather(self._submit_all(), self._disturb())
        await self._settle()
        await self._count()
        self.findings.seconds = time.monotonic() - began
        await self._redis.aclose()
        return self.findings

    async def _submit_all(self) -> None:
        """Spread the jobs over the faults, so that each fault finds some under way."""
        for number in range(self._faults.jobs):
            while number * (self._faults.count + 1) > (self._done + 1) * self._faults.jobs:
                await asyncio.sleep(0.02)
            job = new_job(steps=self._random.randint(10, 120))
            await self._submit(job)
            self.accepted.append(job.id)
            await asyncio.sleep(self._random.uniform(0.0, 0.1))

    async def _submit(self, job: NewJob) -> None:
        while True:
            try:
                await self._store.submit([job])
                return
            except StoreUnavailable:  # perhaps stored: asked again with the same id
                await asyncio.sleep(0.1)

    async def _disturb(self) -> None:
        faults = self._faults
        plan = ["kill"] * faults.kills + ["stall"] * faults.stalls + ["redis"] * faults.redis_kills
        self._random.shuffle(plan)
        for fault in plan:
            await asyncio.sleep(self._random.uniform(0.5, 2.0))
            self._supervise()
            worker = await self._a_worker()
            if fault == "kill":
                self._kill(worker)
            elif fault == "stall":
                await self._stall(worker)
            else:
                await self._kill_redis()
            self._done += 1

    async def _a_worker(self) -> str:
        """Choose one that is up and holds jobs: a process that is still starting loses nothing."""
        for _ in range(100):
            for name in self._random.sample(WORKERS, len(WORKERS)):
                if await self._holds_jobs(name):
                    return name
            await asyncio.sleep(0.1)
        return self._random.choice(WORKERS)

    async def _holds_jobs(self, name: str) -> bool:
        try:
            for job_id in await ask(self._redis, "ZRANGE", LEASES, 0, -1):
                if (await self._store.get(job_id.decode())).worker == f"{name}@rig":
                    return True
        except (NotFound, StoreUnavailable, OSError):
            return False
        return False

    def _kill(self, worker: str) -> None:
        process = self._rig.processes[worker]
        process.kill()
        process.wait()
        self._rig.worker(worker)

    async def _stall(self, worker: str) -> None:
        process = self._rig.processes[worker]
        process.send_signal(SIGSTOP)
        await asyncio.sleep(LEASE_S * 2)
        process.send_signal(SIGCONT)

    async def _kill_redis(self) -> None:
        await asyncio.to_thread(self._rig.redis.kill)
        await asyncio.sleep(self._random.uniform(0.05, 1.0))
        await asyncio.to_thread(self._rig.redis.start)

    def _supervise(self) -> None:
        """Restart a worker that ended by itself, and count it."""
        for name in WORKERS:
            if self._rig.processes[name].poll() is not None:
                self.findings.worker_exits += 1
                self._rig.worker(name)

    async def _settle(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            self._supervise()
            jobs = [await self._job(job_id) for job_id in self.accepted]
            if all(job is None or job.status.is_terminal for job in jobs):
                break
            await asyncio.sleep(0.3)
        await asyncio.sleep(LEASE_S * 1.5)  # whatever a zombie still wants to write, it has

    async def _job(self, job_id: str) -> Job | None:
        try:
            return await self._store.get(job_id)
        except NotFound:
            return None

    async def _count(self) -> None:
        self.findings.accepted = len(self.accepted)
        for job_id in self.accepted:
            job = await self._job(job_id)
            if job is None:
                self.findings.lost += 1
            else:
                await self._count_one(job)
        self.findings.stats = dict(await read_stats(self._redis))
        with self._rig.client() as client:
            self.findings.contradictions = len(check_integrity(client, is_quiet=True))

    async def _count_one(self, job: Job) -> None:
        found = self.findings
        found.statuses[job.status] += 1
        found.unended += not job.status.is_terminal
        found.not_succeeded += job.status is not JobStatus.SUCCEEDED
        found.ended_again += int(await ask(self._redis, "HGET", job_key(job.id), "finishes")) > 1
        folder = self._rig.folder / "data" / "objects"
        for image in job.images:
            found.stale += f"/{job.id}/{job.fence}/" not in image.key
            path = folder / image.key
            is_whole = path.is_file() and _digest(path) == image.sha256
            found.broken += not is_whole


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(folder: Path, faults: Faults) -> Findings:
    """Start a service of our own, disturb it, and say what had become of its jobs."""
    with a_rig(folder, ATELIER_LEASE_S=str(LEASE_S), ATELIER_MAX_ATTEMPTS="10") as rig:
        rig.upkeep()
        for name in WORKERS:
            rig.worker(name)
        for name in WORKERS:
            rig.wait_for_worker(name)
        return asyncio.run(Storm(rig, faults).run())


def main(
    quick: bool = typer.Option(False, help="60 jobs, 4 kills, 1 stall, 1 kill of Redis."),
    json: bool = typer.Option(False, help="Only the JSON object."),
    seed: int = typer.Option(0, help="Of when and whom the faults hit."),
) -> None:
    """Kill everything in turn. Example: `python -m bench.faults --quick`."""
    full = Faults(jobs=300, kills=20, stalls=3, redis_kills=5, seed=seed)
    faults = Faults(jobs=60, kills=4, stalls=1, redis_kills=1, seed=seed) if quick else full
    with tempfile.TemporaryDirectory(prefix="atelier-faults-") as folder:
        found = run(Path(folder), faults)
    raise SystemExit(finish("faults", figures(faults, found), where=machine(), is_json=json))


def figures(faults: Faults, found: Findings) -> dict[str, Figure]:
    """Lay the findings beside what was promised."""
    none = {
        "accepted jobs lost": found.lost,
        "jobs without an end": found.unended,
        "jobs that ended more than once": found.ended_again,
        "jobs that did not succeed": found.not_succeeded,
        "stale images published": found.stale,
        "published images broken": found.broken,
        "workers that ended by themselves": found.worker_exits,
        "contradictions in the store": found.contradictions,
    }
    counted = {
        "jobs accepted": found.accepted,
        "kill -9 of workers": faults.kills,
        "stalls past the lease": faults.stalls,
        "kill -9 of redis": faults.redis_kills,
        **{
            name: found.stats.get(name, 0)
            for name in ("started", "reaped", "republished", "fenced")
        },
    }
    return {
        **{name: at_most(value, 0, "") for name, value in none.items()},
        **{name: plain(value, "") for name, value in counted.items()},
        "seconds": plain(found.seconds, "s"),
    }


if __name__ == "__main__":
    typer.run(main)
