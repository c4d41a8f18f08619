"""Benchmark placement: CPU time of a decision, in process and through the service.

A prompt takes its turn in a row of the plan; a masked edit takes the best of 64 busy workers.
The service is a real process beside a real Redis server; its CPU time is read from /proc, so a
busy machine does not change the figure. Bars: InstGenIE 0.6 ms and Proteus 1 ms a decision.

    python -m bench.route --quick
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from random import Random

import httpx
import msgspec
import typer

from bench.parts.report import (
    Figure,
    Instant,
    at_least,
    at_most,
    finish,
    machine,
    percentile,
    plain,
)
from catalog.masking.costs import BlockShape, CostLine, MaskingCosts
from cli.stack.ports import free_port
from core.boards.cost import Cost
from core.boards.fleet import FleetChange, QueueDepth, Worker
from core.boards.image_work import ImageWork
from core.boards.plan import PasmRow
from core.errors import StoreUnavailable
from core.model import Model
from core.placement import Placement, PlacementQuery, is_own, own_queue_of, queue_of
from scheduler.placement.dispatch import Dispatcher
from scheduler.placement.overflow import Overflow
from scheduler.placement.placer import NO_PLAN, Placer
from scheduler.placement.step_cost import StepCosts
from scheduler.placement.worker_batches import Batches
from scheduler.profile.profile import Profile
from scheduler.routing.classify import OneClass
from storage.boards.fleet import Reporter
from storage.redis.connect import connect_sync
from storage.redis.server import find_server_binary, server_command

NAMES = ("base", "small", "tiny")
QUERY = PlacementQuery(prompt="a red circle on a blue background", models=NAMES)
MODELS = {name: Model(name=name, family="noop") for name in NAMES}
SHARES = {"base@0": 0.5, "small@0": 0.3, "tiny@0": 0.2}
WORKERS = 64
RATE = 20  #: placements in a second of their own clock
PIXELS = 1024**2
IMAGES, EDITS = "prompt", f"edit, {WORKERS} workers"
LATE = "prompt that the plan would have late"
#: Of a model with as many blocks as SDXL; how large the figures are makes no difference.
COSTS = MaskingCosts(
    compute=CostLine(start_s=1e-4, per_unit_s=(1e-13, 1e-13), r2=1.0),
    load=CostLine(start_s=1e-5, per_unit_s=(1e-9,), r2=1.0),
    copy=CostLine(start_s=1e-5, per_unit_s=(1e-10,), r2=1.0),
    blocks=tuple(BlockShape(tokens=1024, channels=1280, weights=2 * 10**7) for _ in range(70)),
)


#: A placer, what it is asked for, and what it hears every second.
Subject = tuple[Placer, list[PlacementQuery], Callable[[float], object]]


def images() -> Subject:
    """Give a placer that follows a plan of three levels, and prompts."""
    placer = Placer(MODELS, OneClass())
    row = PasmRow(application="default", affinity="any", shares=SHARES)
    workers = {f"w{i}": name for i, name in enumerate(NAMES)}
    placer.follow(replace(NO_PLAN, version=1, assignments=workers, pasm=(row,)))
    return placer, [QUERY], lambda now: None


def late() -> Subject:
    """Give a placer whose plan names a model that has too much to do, as has the next one."""
    fleet = [
        Worker(name=f"w{n}", device_type="cpu", models=(m,), queues=(), memory_gib=4.0, running=8)
        for n, m in enumerate(islice(cycle(NAMES), WORKERS))
    ]
    depths = [QueueDepth(queue=queue_of(m), waiting=500, oldest_s=9.0) for m in NAMES[:2]]
    known = Cost(steps=((1, 0.05), (8, 0.2)), is_measured=True)
    overflow = Overflow(Profile(models=MODELS))
    placer = Placer(MODELS, OneClass(), overflow=overflow)
    assignments = {worker.name: worker.models[0] for worker in fleet}
    costs = {"cpu": dict.fromkeys(NAMES, known)}
    placer.follow(replace(NO_PLAN, version=1, assignments=assignments, resident=NAMES, costs=costs))
    overflow.backlog.hear(FleetChange(workers=fleet), 0.0)
    return placer, [replace(QUERY, slo_s=9.0)], partial(overflow.backlog.measure, depths)


def edits() -> Subject:
    """Give a placer before busy workers, and edits of many templates under many masks."""
    rng = Random(0)
    costs = StepCosts.of(COSTS, PIXELS)
    batches = Batches(lambda model, device: costs, stale_s=3600.0)
    workers = [_worker(rng, number) for number in range(WORKERS)]
    placer = Placer(MODELS, OneClass(), Dispatcher(batches))
    assignments = {f"w{number}@host": "base" for number in range(WORKERS)}
    placer.follow(replace(NO_PLAN, version=1, assignments=assignments))
    asked = [replace(QUERY, models=("base",), works=(_work(rng, str(i)),)) for i in range(1000)]

    def hear(now: float) -> None:
        reports = [replace(worker, beat_at=now) for worker in workers]
        batches.hear(FleetChange(workers=reports), now)

    return placer, asked, hear


def _work(rng: Random, job: str) -> ImageWork:
    return ImageWork(
        job=job,
        model="base",
        steps=50,
        rows=2,
        pixels=PIXELS,
        masked=rng.uniform(0.02, 0.4),
        recording=f"t{rng.randrange(100)}",
    )


def _worker(rng: Random, number: int) -> Worker:
    works = [replace(_work(rng, f"{number}.{i}"), steps=rng.randint(1, 50)) for i in range(8)]
    queue, name = queue_of("base"), f"w{number}@host"
    return Worker(
        name=name,
        device_type="cpu",
        models=("base",),
        queues=(queue, own_queue_of(queue, name)),
        memory_gib=4.0,
        works=tuple(works),
        recordings=tuple(f"t{rng.randrange(100)}" for _ in range(10)),
        shelved=tuple(f"t{rng.randrange(100)}" for _ in range(40)),
    )


def decide(subject: Subject, samples: int) -> dict[str, Figure]:
    """Place one query at a time. CPU time: a busy machine does not change it."""
    placer, asked, hear = subject
    taken, began = [], Instant.now()
    for i in range(samples):
        if i % RATE == 0:
            hear(i / RATE)
        query, at = asked[i % len(asked)], time.thread_time()
        [placed] = placer.place([query], i / RATE)
        taken.append((time.thread_time() - at) * 1e3)
        if not isinstance(placed, Placement) or is_own(placed.queue) != bool(query.works):
            raise SystemExit(f"placed wrongly: {placed}")
    spent = Instant.now() - began
    return {
        "p99": at_most(percentile(taken, 0.99), 1.0, "ms"),
        "per CPU second": at_least(samples / spent.cpu_s, 2000, "jobs/CPU s"),
    }


@contextmanager
def service(folder: Path) -> Iterator[tuple[str, int]]:
    """Run Redis, three workers that report once, and the scheduler; yield its URL and pid."""
    with ExitStack() as stack:
        store_port, port = free_port(), free_port()
        stack.enter_context(running(server_command(find_server_binary(), folder, store_port)))
        url = f"redis://127.0.0.1:{store_port}/0"
        settings = {"REDIS_URL": url, "MODELS_DIR": folder, "DATA_DIR": folder}
        settings |= {"SCHEDULER_PORT": port, "WORKER_STALE_S": 3600}
        environ = os.environ | {f"ATELIER_{name}": str(value) for name, value in settings.items()}
        for name in NAMES:
            (folder / name).mkdir()
            (folder / name / "atelier.json").write_text(f'{{"name": "{name}", "family": "noop"}}')
            report_once(url, name)
        command = [sys.executable, "-m", "run.scheduler"]
        process = stack.enter_context(running(command, environ))
        await_plan(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}", process.pid


@contextmanager
def running(
    command: list[str], environ: dict[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program for as long as the block."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environ, stdout=quiet, stderr=quiet)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10.0)


def report_once(url: str, name: str) -> None:
    """Report a worker as soon as the store answers."""
    worker = Worker(name=name, device_type="cpu", models=(name,), queues=(), memory_gib=4.0)
    client = connect_sync(url)
    for _ in range(100):
        try:
            return Reporter(client).report(worker)
        except StoreUnavailable:
            time.sleep(0.05)
    raise SystemExit("the store did not start")


def await_plan(url: str) -> None:
    """Wait until the service has a plan for all workers."""
    for _ in range(200):
        try:
            if len(httpx.get(f"{url}/plan").json()["assignments"]) == len(NAMES):
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise SystemExit("the scheduler did not start")


def cpu_seconds(pid: int) -> float:
    """Read the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def per_cpu_second(url: str, pid: int, batch: int, calls: int) -> float:
    """Place batches one after the other; count jobs placed per CPU second of the service."""
    body = msgspec.json.encode({"queries": [QUERY] * batch})
    with httpx.Client() as client:
        began = cpu_seconds(pid)
        for _ in range(calls):
            answer = client.post(f"{url}/route", content=body).raise_for_status()
        spent = cpu_seconds(pid) - began
        if any("error" in item for item in answer.json()["placements"]):
            raise SystemExit("the service placed nothing")
    return batch * calls / spent


def latency(url: str, calls: int) -> Figure:
    """Place one job after the other; how long the slowest of a hundred waits."""
    body, taken = msgspec.json.encode({"queries": [QUERY]}), []
    with httpx.Client() as client:
        for _ in range(calls):
            began = time.perf_counter()
            client.post(f"{url}/route", content=body).raise_for_status()
            taken.append((time.perf_counter() - began) * 1e3)
    return at_most(percentile(taken, 0.99), 40.0, "ms")


def main(
    quick: bool = typer.Option(False, help="A tenth of the samples."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure placements. Example: `python -m bench.route --quick`."""
    scale = 1 if quick else 10
    figures: dict[str, Figure] = {}
    for name, subject in ((IMAGES, images()), (LATE, late()), (EDITS, edits())):
        found = decide(subject, 2_000 * scale)
        figures |= {f"{name}, {figure}": value for figure, value in found.items()}
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as (url, pid):
        figures["service, one a call: p99"] = latency(url, 300 * scale)
        rates = {
            batch: per_cpu_second(url, pid, batch, calls)
            for batch, calls in ((1, 300 * scale), (32, 100 * scale))
        }
        figures["service, one a call"] = plain(rates[1], "jobs/CPU s")
        figures["service, 32 a call"] = at_least(rates[32], 2000, "jobs/CPU s")
    raise SystemExit(finish("route", figures, where=machine("1 thread"), is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
