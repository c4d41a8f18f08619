"""Benchmark a fleet of 10,000 workers: placements, what reports cost, an idle scheduler.

Placements: in process, prompts of which some are late, and edits, while all workers are busy and
each reports once a second; a placement may come after any slice of a report. CPU time: what else
the machine does counts little. The scheduler: a real process before a real Redis server, with
workers that report and make nothing; CPU time of both from /proc, net of nothing.

    python -m bench.scale --quick
"""

import asyncio
import gc
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from random import Random

import httpx
import typer

from bench.classify import AT_ONCE, ZOO, alone
from bench.edit_routing import sustained
from bench.parts.edit_fleet import Fleet, Scene, draw
from bench.parts.report import Figure, at_most, finish, machine, percentile, plain
from bench.parts.reporting_fleet import a_work, a_worker, busy, reporting_fleet
from bench.retrieve import captions
from bench.route import COSTS, MODELS, NAMES, PIXELS, QUERY, cpu_seconds, running
from classifier.encoder.installed import open_encoder
from classifier.trained import TrainedClassifier
from cli.stack.ports import free_port
from core.boards.cost import Cost
from core.boards.fleet import FleetChange, QueueDepth, Worker
from core.boards.image_work import ImageWork
from core.boards.plan import PasmRow
from core.errors import StoreUnavailable
from core.placement import Placement, PlacementQuery, is_own, queue_of
from core.settings import CLASSIFIER, Settings
from run.scheduler import COLLECT_AT
from scheduler.metrics import Metrics
from scheduler.placement.admission import AdmissionControl
from scheduler.placement.dispatch import Dispatcher, pipeline
from scheduler.placement.overflow import Overflow
from scheduler.placement.placer import NO_PLAN, Placer
from scheduler.placement.step_cost import StepCosts
from scheduler.placement.worker_batches import MOST, Batches
from scheduler.profile.profile import Profile
from scheduler.routing.classify import OneClass
from scheduler.service.classify_batches import BatchedClassifier
from scheduler.service.reports import SLICE
from storage.redis.connect import ask_sync, connect_sync
from storage.redis.server import find_server_binary, server_command
from zoo.prompts import Split

FLEETS = (2, 500, 10_000)
PLACEMENT_MS, IDLE_MS = 2.0, 100.0
SAMPLED = 1.05  #: how much longer an edit may take that did not look at all workers
LOAD = 0.8  #: of the edits that they could make
EDITS = 4  #: of so many placements one is an edit
PER_SLICE = 4  #: placements between two slices of a report
WARM_S = 4.0  #: until the first plan is made and the fleet has been read


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A scheduler's placements, without its service."""

    placer: Placer
    batches: Batches
    overflow: Overflow
    fleet: list[Worker]

    def hear(self, change: FleetChange, now: float) -> None:
        """Take in what changed, as `Reports` passes it on."""
        self.batches.hear(change, now)
        self.overflow.backlog.hear(change, now)

    def measure(self, now: float) -> None:
        """Take in the depths of queues."""
        waiting = len(self.fleet)
        depths = [QueueDepth(queue=queue_of(m), waiting=waiting, oldest_s=1.0) for m in NAMES]
        self.overflow.backlog.measure(depths, now)


def a_subject(workers: int, rng: Random) -> Subject:
    """Give a scheduler that has heard of so many busy workers."""
    idle = [a_worker(n, model) for n, model in enumerate(islice(cycle(NAMES), workers))]
    fleet = [busy(worker, rng) for worker in idle]
    costs = StepCosts.of(COSTS, PIXELS)
    batches = Batches(lambda model, device: costs, stale_s=3600.0)
    overflow = Overflow(Profile(models=MODELS))
    admission = AdmissionControl(max_queue=10**9)
    placer = Placer(MODELS, OneClass(), Dispatcher(batches), overflow, admission)
    known = Cost(steps=((1, 0.05), (8, 0.2)), is_measured=True)
    placer.follow(
        replace(
            NO_PLAN,
            version=1,
            assignments={worker.name: worker.models[0] for worker in fleet},
            pasm=(PasmRow(application="default", affinity="any", shares={"base@0": 1.0}),),
            resident=NAMES,
            costs={"gpu": dict.fromkeys(NAMES, known)},
        )
    )
    subject = Subject(placer=placer, batches=batches, overflow=overflow, fleet=fleet)
    subject.hear(FleetChange(workers=fleet), 0.0)
    subject.measure(0.0)
    return subject


def placements(workers: int, samples: int) -> Iterator[tuple[str, Figure]]:
    """Place prompts and edits between the slices of reports."""
    rng = Random(0)
    subject = a_subject(workers, rng)
    taken: dict[str, list[float]] = {"prompt": [], "edit": [], "slice": []}
    now, at, number = 0.0, 0, 0
    while number < samples:
        if at >= workers:
            at, now = 0, now + 0.5
            began = time.thread_time()
            subject.measure(now)
            taken["slice"].append((time.thread_time() - began) * 1e3)
        news = subject.fleet[at : at + SLICE]
        news = [replace(w, running=8 - at // SLICE % 2, works=_later(w)) for w in news]
        began = time.thread_time()
        subject.hear(FleetChange(workers=news), now)
        taken["slice"].append((time.thread_time() - began) * 1e3)
        at += SLICE
        for _ in range(PER_SLICE):
            number += 1
            query = _query(rng, number)
            began = time.thread_time()
            [placed] = subject.placer.place([query], now)
            spent = (time.thread_time() - began) * 1e3
            taken["edit" if query.works else "prompt"].append(spent)
            if not isinstance(placed, Placement) or is_own(placed.queue) != bool(query.works):
                raise SystemExit(f"placed wrongly: {placed}")
    title = f"{workers:,} workers"
    for name, values in taken.items():
        yield f"{title}, {name}: p50", plain(percentile(values, 0.5), "ms")
        yield f"{title}, {name}: p99", at_most(percentile(values, 0.99), PLACEMENT_MS, "ms")


def _later(worker: Worker) -> tuple[ImageWork, ...]:
    return tuple(replace(work, steps=max(1, work.steps - 1)) for work in worker.works)


def _query(rng: Random, number: int) -> PlacementQuery:
    if number % EDITS:
        return replace(QUERY, slo_s=9.0, max_wait_s=90.0)
    return replace(QUERY, models=("base",), works=(a_work(rng, f"edit{number}", "base"),))


def sampled(count: int) -> Iterator[tuple[str, Figure]]:
    """Compare edits that look at some of many workers with such that look at all."""
    scene = Scene(
        mean_mask=0.11, templates=200, memory=20, disk=60, pixels=PIXELS, workers=4 * MOST
    )
    costs = StepCosts.of(COSTS, PIXELS)
    rate = LOAD * sustained(scene, costs, count)
    mean_s = {}
    for most in (MOST, scene.workers):
        jobs = draw(scene, rate, count, seed=1)
        Fleet(scene, costs, pipeline, 1, most).run(jobs)
        taken = [job.done_at - job.at for job in jobs[count // 4 :]]
        mean_s[most] = sum(taken) / len(taken)
    title = f"edits, {scene.workers} workers: mean time, best of {MOST // 2}"
    yield title, at_most(mean_s[MOST] / mean_s[scene.workers], SAMPLED, "of best of all")


def process(workers: int, seconds: float, *, is_busy: bool) -> Iterator[tuple[str, Figure]]:
    """Have so many workers report to a scheduler that nobody asks for anything."""
    rng, fleet = Random(0), [a_worker(n, m) for n, m in enumerate(islice(cycle(NAMES), workers))]
    if is_busy:
        fleet = [busy(worker, rng) for worker in fleet]
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, store_port, port = Path(name), free_port(), free_port()
        command = server_command(find_server_binary(), folder, store_port)
        store = stack.enter_context(running(command))
        url = f"redis://127.0.0.1:{store_port}/0"
        await_store(url)
        for model in NAMES:
            (folder / model).mkdir()
            card = f'{{"name": "{model}", "family": "noop"}}'
            (folder / model / "atelier.json").write_text(card)
        settings = {"REDIS_URL": url, "MODELS_DIR": folder, "DATA_DIR": folder}
        settings |= {"SCHEDULER_PORT": port, "LATENTS_GIB": 0}
        environ = os.environ | {f"ATELIER_{name}": str(value) for name, value in settings.items()}
        reports = stack.enter_context(reporting_fleet(url, fleet, is_news=is_busy))
        scheduler = stack.enter_context(running([sys.executable, "-m", "run.scheduler"], environ))
        await_fleet(f"http://127.0.0.1:{port}", workers)
        time.sleep(WARM_S)
        before = [cpu_seconds(each.pid) for each in (scheduler, store)]
        began, sent = time.perf_counter(), reports.sent
        time.sleep(seconds)
        wall_s, sent = time.perf_counter() - began, reports.sent - sent
        spent = [
            cpu_seconds(each.pid) - b for each, b in zip((scheduler, store), before, strict=True)
        ]
    what = "all busy" if is_busy else "idle"
    title = f"{workers:,} workers, {what}"
    own, redis = (each / wall_s * 1e3 for each in spent)
    is_bar = not is_busy
    yield f"{title}: scheduler", at_most(own, IDLE_MS, "ms/s") if is_bar else plain(own, "ms/s")
    yield f"{title}: Redis", plain(redis, "ms/s")
    yield f"{title}: reports", plain(sent / wall_s, "a second")


def classes(count: int) -> Iterator[tuple[str, Figure]]:
    """Classify prompts that nobody has seen, then the same again, then in two processes at once."""
    prompts = captions(Split.TEST, count)
    classifier = TrainedClassifier(ZOO / CLASSIFIER, open_encoder(Settings()))
    batched = BatchedClassifier(classifier, metrics=Metrics(), budget_s=600.0)
    for name in ("new", "seen"):
        began = time.process_time()
        asyncio.run(_classify(batched, prompts))
        rate = count / (time.process_time() - began)
        yield f"prompts, {name}", plain(rate, "prompts/CPU s")
    batched.close()
    with ProcessPoolExecutor(2) as pool:
        rates = pool.map(_alone, [prompts[: count // 2], prompts[count // 2 :]])
    yield "prompts, new, in each of two processes", plain(min(rates), "prompts/CPU s")


async def _classify(batched: BatchedClassifier, prompts: Sequence[str]) -> None:
    for first in range(0, len(prompts), AT_ONCE):
        await batched.classify(prompts[first : first + AT_ONCE])


def _alone(prompts: Sequence[str]) -> float:
    return alone(TrainedClassifier(ZOO / CLASSIFIER, open_encoder(Settings())), prompts)


def await_store(url: str) -> None:
    """Wait until the store answers."""
    client = connect_sync(url)
    for _ in range(100):
        try:
            ask_sync(client, "PING")
            return client.close()
        except StoreUnavailable:
            time.sleep(0.05)
    raise SystemExit("the store did not start")


def await_fleet(url: str, workers: int) -> None:
    """Wait until there is a plan for everybody."""
    for _ in range(600):
        try:
            if len(httpx.get(f"{url}/plan").json()["assignments"]) == workers:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise SystemExit("the scheduler made no plan for all workers")


def main(
    quick: bool = typer.Option(False, help="Fewer samples, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure a large fleet. Example: `python -m bench.scale --quick`."""
    samples, seconds = (2000, 12.0) if quick else (20_000, 40.0)
    gc.set_threshold(*COLLECT_AT)  # as the scheduler does
    figures: dict[str, Figure] = {}
    for workers in FLEETS:
        figures |= placements(workers, samples)
    figures |= sampled(samples)
    figures |= classes(samples // 4)
    for workers in FLEETS:
        figures |= process(workers, seconds, is_busy=False)
    figures |= process(FLEETS[-1], seconds, is_busy=True)
    raise SystemExit(finish("scale", figures, where=machine("1 thread"), is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
