"""Benchmark what jobs cost the store: commands, CPU and memory of Redis for each; an idle worker.

Jobs of fifty steps through the real api, scheduler, worker and Redis. The model is of the `paced`
family: its steps take time and make nothing, and eight jobs that share them two seconds. What the
service asks while it has nothing to do is taken off: as it was just before some jobs and just after
them, and the median of such rounds counts, for a scheduler that decides a plan asks a fifth less
for as long. The worker is stopped while the jobs are queued, so that all are measured as they wait.

At last as many a second as a worker can take of a model that does nothing (`bench.path`): how many
jobs one Redis bears is what they take of it then, not what one takes that comes when it sleeps. So
a lone write is measured as well, to a server that sleeps and in a row: a job makes four at least.

    python -m bench.store_cost --quick
"""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from statistics import median

import httpx
import typer
from redis import Redis

from bench import path
from bench.parts.report import Figure, at_most, finish, machine, plain
from bench.parts.served import served
from cli.stack.ports import free_port
from core.model import Model
from storage.archive.connect import open_engine
from storage.archive.mover import Mover
from storage.redis.keys import FINISHED
from tests.rig import Rig, a_rig

MODEL = Model(name="paced", family="paced", step_s=0.0125, load_s=0.1, default_guidance=1.0)
STEPS = 50
WARM = 16  #: jobs made before any is measured
ROUNDS = 5  #: of jobs that come one by one, each between two spells of idleness
PAUSE_S = 0.4  #: between two submits to a worker that makes some three jobs a second
COMMANDS, CPU_MS, BYTES, IDLE = 45.0, 0.5, 1500.0, 10.0
SETTLE_S = 5.0  #: after a start, until nothing is loaded or planned any more
AFTER_S = 2.0  #: within which all is said of what has ended: it counts as theirs
LOOK_S = 0.5  #: between two looks at how many have ended
ALONE_S = 0.2  #: between two writes to a server that sleeps meanwhile
WRITES = 50  #: of these; a hundred times as many come in a row
KEPT_S = 3600  #: what ends by itself within so long is gone an hour after


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a Redis server says that it has done."""

    at: float  #: monotonic s
    commands: int  #: those within scripts among them
    cpu_s: float
    used_bytes: int

    @classmethod
    def now(cls, client: Redis) -> "Reading":
        info = client.info()
        cpu_s = info["used_cpu_user"] + info["used_cpu_sys"]
        return cls(
            at=time.monotonic(),
            commands=info["total_commands_processed"],
            cpu_s=cpu_s,
            used_bytes=info["used_memory"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """What a Redis server did for a while."""

    seconds: float
    commands: int  #: without those that looked
    cpu_s: float

    @classmethod
    def between(cls, before: Reading, after: Reading, looks: int = 0) -> "Spell":
        """Tell two readings apart; `looks`: commands between them that looked."""
        return cls(
            seconds=after.at - before.at,
            commands=after.commands - before.commands - 1 - looks,
            cpu_s=after.cpu_s - before.cpu_s,
        )

    def __add__(self, other: "Spell") -> "Spell":
        return Spell(
            seconds=self.seconds + other.seconds,
            commands=self.commands + other.commands,
            cpu_s=self.cpu_s + other.cpu_s,
        )

    @property
    def commands_a_second(self) -> float:
        return self.commands / self.seconds

    def of_each(self, count: int, idle: "Spell") -> "Cost":
        """Share it among things that were done, less what is done while there are none."""
        share = self.seconds / idle.seconds
        return Cost(
            commands=(self.commands - share * idle.commands) / count,
            cpu_ms=(self.cpu_s - share * idle.cpu_s) / count * 1e3,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one thing takes of a Redis server."""

    commands: float
    cpu_ms: float


def idle_worker(folder: Path, seconds: float) -> Iterator[tuple[str, Figure]]:
    """Count what one worker asks that nobody gives anything to make."""
    with a_rig(folder, models=[MODEL], **settings()) as rig, rig.client() as client:
        rig.start("worker", "run.worker", ATELIER_WORKER_NAME="worker@rig")
        rig.wait_for_worker("worker")
        time.sleep(SETTLE_S)
        asked = rest(client, seconds).commands_a_second
    yield "an idle worker", at_most(asked, IDLE, "commands a second")


def jobs(folder: Path, count: int, seconds: float) -> Iterator[tuple[str, Figure]]:
    """Measure jobs from their submit to an hour after their end: one by one, and in a backlog."""
    with (
        a_rig(folder, models=[MODEL], **settings()) as rig,
        closing(served(rig)) as api,
        rig.client() as client,
    ):
        make(rig, client, api, WARM)  # so that every script and index is there
        time.sleep(SETTLE_S)
        begun = Reading.now(client)
        flowing, idle = flows(client, api, count, seconds / 2)
        flowed = Reading.now(client)
        queued, ended, looks = make(rig, client, api, count)
        backlog = Spell.between(flowed, ended, looks + 1)
        at_rest = Reading.now(client)
        moved = archive(client, folder)
        moving = Spell.between(at_rest, Reading.now(client)).of_each(moved, idle)
        forget_an_hour(client)
        later = Reading.now(client)

    yield "a job: commands", at_most(median(each.commands for each in flowing), COMMANDS, "")
    yield "a job: CPU of Redis", at_most(median(each.cpu_ms for each in flowing), CPU_MS, "ms")
    waited = backlog.of_each(count, idle)
    yield "a job in a backlog: commands", plain(waited.commands, "")
    yield "a job in a backlog: CPU of Redis", plain(waited.cpu_ms, "ms")
    yield "memory of a job, queued", plain((queued.used_bytes - flowed.used_bytes) / count, "B")
    held = (ended.used_bytes - flowed.used_bytes) / count
    yield "memory of a job, at its end", plain(held, "B")
    yield "moving a job to the archive: commands", plain(moving.commands, "")
    yield "moving a job to the archive: CPU of Redis", plain(moving.cpu_ms, "ms")
    held = (later.used_bytes - begun.used_bytes) / (2 * count)
    yield "memory of a job, an hour after", at_most(held, BYTES, "B")
    yield "the service, idle", plain(idle.commands_a_second, "commands a second")


def many(folder: Path, count: int, seconds: float) -> Iterator[tuple[str, Figure]]:
    """Measure jobs that come and go by the hundred a second; the median of some rounds counts."""
    with (
        a_rig(folder, models=[path.MODEL], **settings(path.MODEL)) as rig,
        closing(path.start(rig)),
        rig.client() as client,
    ):
        time.sleep(SETTLE_S)
        idle, costs, rates = rest(client, seconds), [], []
        for _ in range(ROUNDS):
            before = Reading.now(client)
            asyncio.run(path.jobs_per_s(rig, count))
            spell = Spell.between(before, Reading.now(client))
            costs.append(spell.of_each(count, idle))
            rates.append(count / spell.seconds)
    yield "jobs by the hundred", plain(median(rates), "a second")
    took = median(each.cpu_ms for each in costs)
    yield "a job among hundreds a second: CPU of Redis", at_most(took, CPU_MS, "ms")


def writes(folder: Path, seconds: float) -> Iterator[tuple[str, Figure]]:
    """Measure the least that anything costs: a server with nobody else, and one small write."""
    with a_rig(folder, models=[MODEL], **settings()) as rig, rig.client() as client:
        idle = rest(client, seconds)
        for name, count, pause_s in (
            ("a lone write to a sleeping server: CPU of Redis", WRITES, ALONE_S),
            ("a write in a row: CPU of Redis", 100 * WRITES, 0.0),
        ):
            before = Reading.now(client)
            for number in range(count):
                client.set(f"write {number}", bytes(100))
                time.sleep(pause_s)
            took = Spell.between(before, Reading.now(client)).of_each(count, idle)
            yield name, plain(took.cpu_ms, "ms")


def settings(model: Model = MODEL) -> dict[str, str]:
    """Spell the settings of all processes: leases as they are by default."""
    api, scheduler = free_port(), free_port()
    return {
        "ATELIER_API_PORT": str(api),
        "ATELIER_PUBLIC_URL": f"http://127.0.0.1:{api}",
        "ATELIER_SCHEDULER_PORT": str(scheduler),
        "ATELIER_SCHEDULER_URL": f"http://127.0.0.1:{scheduler}",
        "ATELIER_PRELOAD": f'["{model.name}"]',
        "ATELIER_LEASE_S": "15",
        "ATELIER_BEAT_S": "3",
        "ATELIER_SCORE_SHARE": "0",
        "ATELIER_MAX_WAIT_SLOS": "1000",
    }


def rest(client: Redis, seconds: float) -> Spell:
    """Let time pass."""
    before = Reading.now(client)
    time.sleep(seconds)
    return Spell.between(before, Reading.now(client))


def flows(client: Redis, api: httpx.Client, count: int, seconds: float) -> tuple[list[Cost], Spell]:
    """Have jobs made one by one, some at a time; return what each took, and all idleness.

    Between rounds, and before and after all, nothing is asked for so many seconds.
    """
    costs, idle, each = [], [rest(client, seconds)], count // ROUNDS
    for _ in range(ROUNDS):
        busy = flow(client, api, each)
        idle.append(rest(client, seconds))
        costs.append(busy.of_each(each, idle[-2] + idle[-1]))
    return costs, reduce(Spell.__add__, idle)


def flow(client: Redis, api: httpx.Client, count: int) -> Spell:
    """Have jobs made that come one by one, as fast as most of the worker's time allows."""
    aim = count + int(client.zcard(FINISHED))
    before = Reading.now(client)
    for _ in range(count):
        submit(api)
        time.sleep(PAUSE_S)
    looks = wait_for(client, aim)
    time.sleep(AFTER_S)
    return Spell.between(before, Reading.now(client), looks)


def wait_for(client: Redis, aim: int) -> int:
    """Wait until so many jobs have ended; return how often that was looked for."""
    looks = 1
    while int(client.zcard(FINISHED)) < aim:
        time.sleep(LOOK_S)
        looks += 1
    return looks


def submit(api: httpx.Client) -> str:
    """Submit a job; return its id."""
    body = {"prompt": "a red circle", "steps": STEPS, "model": MODEL.name}
    return str(api.post("/v1/jobs", json=body).raise_for_status().json()["id"])


def make(rig: Rig, client: Redis, api: httpx.Client, count: int) -> tuple[Reading, Reading, int]:
    """Queue jobs and have them made; return what is read then, at the end, and how many looked."""
    worker = rig.processes["worker"].pid
    aim = count + int(client.zcard(FINISHED))
    os.kill(worker, signal.SIGSTOP)
    ids = [submit(api) for _ in range(count)]
    queued = Reading.now(client)
    os.kill(worker, signal.SIGCONT)
    looks = 1 + wait_for(client, aim)
    ended = Reading.now(client)
    lost = [i for i in ids if api.get(f"/v1/jobs/{i}").json()["status"] != "succeeded"]
    if lost:
        raise SystemExit(f"{len(lost)} of {count} jobs did not succeed")
    return queued, ended, looks


def archive(client: Redis, folder: Path) -> int:
    """Move all jobs that have ended as upkeep does after ten minutes; return how many."""
    engine = open_engine(f"sqlite:///{folder / 'archive.db'}")
    moved = Mover(client, engine, after_s=0.0).run()
    engine.dispose()
    return moved


def forget_an_hour(client: Redis) -> None:
    """Have everything end that would within an hour."""
    for key in client.scan_iter(count=1000):
        if 0 <= int(client.ttl(key)) <= KEPT_S:
            client.delete(key)


def main(
    quick: bool = typer.Option(False, help="Fewer jobs, wider noise."),
    json: bool = typer.Option(False, help="Only the JSON object."),
) -> None:
    """Measure what jobs cost Redis. Example: `python -m bench.store_cost --quick`."""
    count, seconds = (80, 10.0) if quick else (400, 30.0)
    figures: dict[str, Figure] = {}
    with tempfile.TemporaryDirectory(prefix="atelier-store-cost-") as folder:
        figures |= idle_worker(Path(folder) / "idle", seconds)
        figures |= jobs(Path(folder) / "jobs", count, seconds)
        figures |= many(Path(folder) / "many", 10 * count, seconds)
        figures |= writes(Path(folder) / "writes", seconds)
    raise SystemExit(finish("store_cost", figures, where=machine(), is_json=json))


if __name__ == "__main__":
    typer.run(main)
