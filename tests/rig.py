"""A Redis server, workers and upkeep of our own, as real processes that tests may kill."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

import msgspec
from redis import Redis

from core.job import Job, JobRequest, JobStatus, Priority
from core.model import Model
from core.placement import Placement, queue_of
from storage.jobs.jobs import JobStore
from storage.jobs.submit import NewJob
from storage.redis.connect import connect, connect_sync
from tasks.messages import QUEUE_PRIORITY, envelope
from tests.servers import Server, redis_server

T = TypeVar("T")

ROOT = Path(__file__).parent.parent
SLOW = Model(name="slow", family="slow", step_s=0.01, max_steps=1000)  #: see `tests.slow`
DEADLY = Model(name="deadly", family="deadly", step_s=0.01, max_steps=1000)
COUNTING = Model(name="counting", family="counting", step_s=0.01, max_steps=1000)
CHAIN = Model(name="chain", family="chain", step_s=0.01, max_steps=1000)
FATAL = Model(name="fatal", family="fatal", step_s=0.01, max_steps=1000)
POISON = 66  #: the seed of a job of `DEADLY` that kills its worker
#: Seconds within which all comes that comes at all: other work may run beside.
PATIENCE_S = 150.0
SECRET = "whsec_" + "c2VjcmV0IG9mIHRoZSB0ZXN0cyBhbmQgbm9ib2R5IGVsc2U="


@dataclass
class Rig:
    """Processes of one service without its api, each with its log in `folder`."""

    folder: Path
    redis: Server
    env: dict[str, str]
    processes: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)

    def start(self, name: str, *command: str, **env: str) -> "subprocess.Popen[bytes]":
        """Start `python -m command` under a name, again if it has ended."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=ROOT,
                env={**self.env, **env},
                stdout=log,
                stderr=log,
            )
        self.processes[name] = process
        return process

    def worker(self, name: str, **env: str) -> "subprocess.Popen[bytes]":
        """Start a worker with models; `wait_for_worker` says when it serves."""
        return self.start(name, "tests.slow_worker", ATELIER_WORKER_NAME=f"{name}@rig", **env)

    def cpu_worker(self) -> "subprocess.Popen[bytes]":
        return self.start("cpu", "run.worker", "--cpu", ATELIER_WORKER_NAME="cpu@rig")

    def upkeep(self) -> "subprocess.Popen[bytes]":
        """Start upkeep, or name the one that runs."""
        found = self.processes.get("upkeep")
        is_there = found is not None and found.poll() is None
        return found if found and is_there else self.start("upkeep", "run.upkeep")

    def wait_for_worker(self, name: str, timeout_s: float = PATIENCE_S) -> None:
        """Return once a worker has said that it is ready, and is in the fleet."""
        client = self.client()
        self.wait_until(lambda: bool(client.hexists("fleet", f"{name}@rig")), timeout_s)
        log = self.folder / f"{name}.log"
        self.wait_until(lambda: b" ready." in log.read_bytes(), timeout_s)
        client.close()

    def submit(self, *jobs: NewJob) -> None:
        """Store and queue jobs, as the api does."""
        asyncio.run(self._ask(lambda store: store.submit(jobs)))

    def job(self, job_id: str) -> Job:
        return asyncio.run(self._ask(lambda store: store.get(job_id)))

    def cancel(self, job_id: str) -> Job:
        return asyncio.run(self._ask(lambda store: store.cancel(job_id)))

    def wait_for(self, job_id: str, *statuses: JobStatus, timeout_s: float = PATIENCE_S) -> Job:
        """Return a job once it is in one of these statuses; one that has ended gets into no other.

        Raises: TimeoutError.
        """
        job = self.job(job_id)

        def is_so() -> bool:
            nonlocal job
            job = self.job(job_id)
            return job.status in statuses or job.status.is_terminal

        self.wait_until(is_so, timeout_s)
        if job.status not in statuses:
            raise TimeoutError(f"{job_id} is {job.status} for good: {job.failure}\n{self.logs()}")
        return job

    def stats(self) -> dict[str, int]:
        with self.client() as client:
            return {k.decode(): int(v) for k, v in client.hgetall("stats").items()}

    async def _ask(self, ask: Callable[[JobStore], Awaitable[T]]) -> T:
        redis = connect(self.redis.url)
        try:
            return await ask(JobStore(redis, max_queue=10_000))
        finally:
            await redis.aclose()

    def wait_until(self, is_so: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
        until = time.monotonic() + timeout_s
        while not is_so():
            if time.monotonic() > until:
                raise TimeoutError(self.logs())
            time.sleep(0.02)

    def client(self) -> Redis:
        return connect_sync(self.redis.url)

    def logs(self) -> str:
        """The end of every log, for a test that failed."""
        files = sorted(self.folder.glob("*.log"))
        return "\n".join(f"== {f.name}\n{f.read_text()[-3000:]}" for f in files)

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(60.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.redis.stop()


@contextmanager
def a_rig(
    folder: Path,
    store: Callable[[Path], Server] = redis_server,
    /,
    *,
    models: Sequence[Model] = (SLOW,),
    **env: str,
) -> Iterator[Rig]:
    """Start a Redis server; workers and the rest are started by the test."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in models:
        save_model(folder / "models", model)
    server = store(folder / "redis")
    rig = Rig(folder=folder, redis=server, env=environment(folder, server.url, env))
    try:
        if env.get("ATELIER_BROKER_URL"):
            rig.upkeep()  # it carries bells from the store
        yield rig
    finally:
        rig.close()


def environment(folder: Path, redis_url: str, env: Mapping[str, str]) -> dict[str, str]:
    ours = {k: v for k, v in os.environ.items() if not k.startswith("ATELIER_")}
    return {
        **ours,
        "PYTHONWARNINGS": "ignore",
        "ATELIER_REDIS_URL": redis_url,
        "ATELIER_MODELS_DIR": str(folder / "models"),
        "ATELIER_DATA_DIR": str(folder / "data"),
        "ATELIER_URL_SECRET": "secret of the rig",
        "ATELIER_WEBHOOK_SECRET": SECRET,
        "ATELIER_WEBHOOK_ALLOW_PRIVATE": "true",
        "ATELIER_LEASE_S": "2",
        "ATELIER_BEAT_S": "0.4",
        **env,
    }


def save_model(folder: Path, model: Model) -> None:
    (folder / model.name).mkdir(parents=True, exist_ok=True)
    (folder / model.name / "atelier.json").write_bytes(msgspec.json.encode(asdict(model)))


def new_job(
    *,
    model: str = "slow",
    steps: int = 5,
    seed: int = 1,
    deadline_s: float | None = None,
    priority: Priority = Priority.INTERACTIVE,
    **request: object,
) -> NewJob:
    job_id, queue = token_hex(16), queue_of(model)
    asked = JobRequest(
        prompt="a red circle",
        model=model,
        width=64,
        height=64,
        steps=steps,
        guidance=1.0,
        seed=seed,
        priority=priority,
        **{"filled": ("model",), **request},  # type: ignore[arg-type]
    )
    rank = QUEUE_PRIORITY[priority]
    return NewJob(
        id=job_id,
        tenant="t",
        request=asked,
        placement=Placement(queue=queue, model=model, level=f"{model}@0"),
        deadline_s=deadline_s,
        message=envelope(job_id, queue, rank),
        priority=rank,
    )
