"""Benchmark the simulator: against the live service on the same trace, and how fast it is.

The embedded stack serves models whose steps take their time and compute nothing (family `paced`),
with a profile measured here: what differs is the service, not the host's cores. The same arrivals
come to the simulator, under several seeds: they say when workers look at the plan. Where that alone
changes how many jobs are late, no run of the service is like the next, and means are compared, of
so many runs. Then a million requests to a hundred workers, in CPU time of one core; and
cells of ten thousand workers, of which the whole is so many times one.

    python -m bench.simulated --quick
"""

import asyncio
import os
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import msgspec
import numpy as np
import typer

from bench.parts.live import LOOK_S, PlanSeen, connect, drive
from bench.parts.paced_service import (
    DEVICE,
    FAMILY,
    MODELS,
    PROMPT,
    SLOTS,
    STEPS,
    make,
    quality_of,
    world_of,
)
from bench.parts.report import Figure, at_most, finish, machine, plain
from cli.stack.running import Running, running
from core.log import configure
from loadgen.arrivals.gaps import poisson
from loadgen.prompts import read_prompts
from loadgen.sample import ClientOutcome, RequestSample
from loadgen.workload import Workload
from simulator.cells import simulate_cells
from simulator.inputs import EXAMPLE, EXAMPLE_PROMPTS, read_devices
from simulator.outcome import PolicyOutcome
from simulator.run import simulate
from simulator.world import World

POLICY = "atelier"
CHEAP = "clipper-ht"  #: decides in next to no time
WORKERS = 2
LOADS = (0.5, 1.3, 2.5)  #: of what the fleet ends of its best model
PERIOD_S = 10.0
#: Arrivals before which the service settles, and that are not compared.
SETTLE_S = 15.0
#: Seeds of the simulator; and runs of the service, where those disagree by more than may be.
SEEDS, RUNS, APART = 12, 6, 0.02
HUNDRED, JOBS, RATE = 100, 1_000_000, 50.0  #: workers, requests, requests/s
CELL, CELLS = 2_500, 4  #: workers of a cell (docs/scale.md: one has up to 2,900), and cells
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What one side saw of a load."""

    per_s: float  #: images a second, from the first arrival to the last end
    quality: float  #: mean of images made
    late: float  #: share of the jobs
    p50_s: float


def main(
    quick: bool = typer.Option(False, help="One load, 40 s; 30,000 requests, a minute of cells."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure how true and how fast the simulator is. Example: `python -m bench.simulated`."""
    configure("error", is_json=False)
    figures = agreement((0.9,) if quick else LOADS, 40.0 if quick else 120.0)
    figures |= speed(30_000 if quick else JOBS)
    figures |= cells(60.0 if quick else HOUR_S)
    raise SystemExit(finish("simulated", figures, where=machine("1 thread"), is_json=as_json))


def agreement(loads: Sequence[float], seconds: float) -> dict[str, Figure]:
    """Let the same requests come to the service and to the simulator."""
    figures: dict[str, Figure] = {}
    best_s = MODELS["best"][0] * STEPS * (1 + 0.3 * (SLOTS - 1)) / SLOTS
    with tempfile.TemporaryDirectory() as name:
        models = Path(name) / "models"
        make(models)
        for load in loads:
            at_s = poisson(load * WORKERS / best_s, seconds, seed=int(100 * load))
            workload = Workload.of(at_s, prompts=[PROMPT])
            world = world_of(models, workload, workers=WORKERS, period_s=PERIOD_S)
            first = _simulated(world)
            age_s = min(-plan.at_s for plan in first[0].plans if plan.at_s < 0)
            late = [outcome.late for outcome in map(_modelled, first)]
            runs = 1 if max(late) - min(late) <= APART else RUNS
            live = [
                _live(models, workload, Path(name) / f"at {load}, {run}", age_s)
                for run in range(runs)
            ]
            slowness = float(np.mean([slowness for _, slowness in live]))
            modelled = _simulated(replace(world, misjudged=dict.fromkeys(FAMILY, slowness)))
            slo_s = float(modelled[0].slo_s[0])
            seen = [_seen(samples, slo_s) for samples, _ in live]
            figures |= _beside(load, seen, [_modelled(outcome) for outcome in modelled])
            figures[f"load {load:g}: steps, live / profiled"] = plain(slowness, "ratio")
    return figures


def _simulated(world: World) -> list[PolicyOutcome]:
    """Let the requests come to the simulator, whose workers look at the plan now or a bit later."""
    return [simulate(replace(world, seed=seed), POLICY) for seed in range(SEEDS)]


def _live(
    models: Path, workload: Workload, folder: Path, age_s: float
) -> tuple[list[RequestSample], float]:
    """Let requests come to a service that has just been started, as a simulated one has.

    The first comes when the plan is so old: it matters whether the next one sees ten seconds of
    demand or less. Returns also how much longer its steps took than profiled, as its workers say:
    others may have used the host.
    """
    env = {
        "ATELIER_MODELS_DIR": str(models),
        "ATELIER_MAX_SLOTS": str(SLOTS),
        "ATELIER_PLAN_PERIOD_S": str(PERIOD_S),
        "ATELIER_LATENTS_GIB": "0",
        "ATELIER_SCORE_SHARE": "0",
    }
    with running(folder, workers=WORKERS, env=env) as service:
        return asyncio.run(_drive(service, workload, age_s))


async def _drive(
    service: Running, workload: Workload, age_s: float
) -> tuple[list[RequestSample], float]:
    async with connect(service) as http:
        before = now = await _plan(http)
        while now.version == before.version:
            await asyncio.sleep(LOOK_S)
            now = await _plan(http)
        await asyncio.sleep(age_s)
        samples = await drive(http, list(workload.requests(seed=0)))
        return samples, (await _plan(http)).slowness.get(DEVICE, 1.0)


async def _plan(http: httpx.AsyncClient) -> PlanSeen:
    answer = (await http.get("/v1/plan")).raise_for_status()
    return msgspec.json.decode(answer.content, type=PlanSeen)


def _seen(samples: Sequence[RequestSample], slo_s: float) -> Compared:
    counted = [each for each in samples if each.due_s >= SETTLE_S]
    made = [each for each in counted if each.ending is ClientOutcome.SUCCEEDED]
    in_time = sum(each.latency_s <= slo_s for each in made)
    return Compared(
        per_s=len(made) / (max(each.ended_s for each in made) - SETTLE_S),
        quality=quality_of([each.level for each in made]),
        late=1 - in_time / len(counted),
        p50_s=float(np.median([each.latency_s for each in made])),
    )


def _modelled(outcome: PolicyOutcome) -> Compared:
    counted = outcome.at_s >= SETTLE_S
    made = counted & ~np.isnan(outcome.ended_s)
    return Compared(
        per_s=float(made.sum() / (outcome.ended_s[made].max() - SETTLE_S)),
        quality=float(outcome.quality[made].mean()),
        late=float(outcome.was_late[counted].mean()),
        p50_s=float(np.median((outcome.ended_s - outcome.at_s)[made])),
    )


def _beside(
    load: float, seen: Sequence[Compared], outcomes: Sequence[Compared]
) -> dict[str, Figure]:
    name, live, modelled = f"load {load:g}: ", _mean(seen), _mean(outcomes)
    figures = {
        name + "throughput, off by": at_most(abs(modelled.per_s / live.per_s - 1), 0.05, "ratio"),
        name + "quality, off by": at_most(abs(modelled.quality - live.quality), 0.01, "points/100"),
        name + "late, off by": at_most(abs(modelled.late - live.late), APART, "points/100"),
        name + "runs of the service": plain(len(seen), ""),
    }
    for who, found, mean in (("live", seen, live), ("simulated", outcomes, modelled)):
        late = [each.late for each in found]
        figures |= {
            name + f"late, {who}": plain(mean.late, "share"),
            name + f"late, {who}, least": plain(min(late), "share"),
            name + f"late, {who}, most": plain(max(late), "share"),
            name + f"p50, {who}": plain(mean.p50_s, "s"),
        }
    return figures


def _mean(found: Sequence[Compared]) -> Compared:
    return Compared(
        per_s=float(np.mean([each.per_s for each in found])),
        quality=float(np.mean([each.quality for each in found])),
        late=float(np.mean([each.late for each in found])),
        p50_s=float(np.mean([each.p50_s for each in found])),
    )


def a_hundred(jobs: int, rate: float, seed: int = 0, workers: int = HUNDRED) -> World:
    """Requests to H200s of the example, eight slots each."""
    known, prompts = read_devices(EXAMPLE), read_prompts(EXAMPLE_PROMPTS)
    at_s = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, jobs))
    rows = np.random.default_rng(seed).integers(0, len(prompts), jobs)
    return World(
        fleet={"h200": workers},
        profile=known.profile,
        workload=Workload.of(at_s, prompts=prompts.texts, prompt=rows),
        prompts=prompts,
        slots=8,
        seed=seed,
    )


def speed(jobs: int) -> dict[str, Figure]:
    """Simulate a million requests, or what stands for them, with and without a costly policy."""
    share, name = jobs / JOBS, "1,000,000 requests on 100 workers"
    world = a_hundred(jobs, RATE)
    simulate(replace(world, workload=world.workload[: jobs // 10]), POLICY)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    figures: dict[str, Figure] = {}
    for policy in (POLICY, CHEAP):
        began = time.process_time()
        outcome = simulate(world, policy)
        seconds = (time.process_time() - began) / share
        deciding_s = sum(plan.deciding_s for plan in outcome.plans) / share
        figures |= {
            f"{name}, {policy}: CPU": at_most(seconds, 120.0, "s"),
            f"{name}, {policy}: of these, decisions": plain(deciding_s, "s"),
            f"{name}, {policy}: late": plain(float(outcome.was_late.mean()), "share"),
            f"{name}, {policy}: utilisation": plain(outcome.utilisation, "share"),
        }
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    # six columns of what became of it, and what is looked up of them in the end
    return figures | {f"{name}: memory, a request": at_most(1024 * grown_kib / jobs, 300.0, "B")}


def cells(seconds: float) -> dict[str, Figure]:
    """Simulate ten thousand workers for so long, and say what an hour of that takes here.

    The bar is for a whole hour: of a minute most goes to what each process does once.
    """
    workers, cores, hours = CELLS * CELL, os.cpu_count() or 1, seconds / HOUR_S
    rate = RATE * workers / HUNDRED
    world = a_hundred(int(rate * seconds), rate, workers=workers)
    began, began_cpu_s = time.perf_counter(), _children_s()
    outcome = simulate_cells(world, POLICY, CELLS, cores)
    taken_s = (time.perf_counter() - began) / hours
    name = f"{workers:,} workers for an hour, in cells of {CELL:,}"
    return {
        f"{name}, on {cores} cores": (
            at_most(taken_s, 600.0, "s") if seconds >= HOUR_S else plain(taken_s, "s")
        ),
        f"{name}: CPU": plain((_children_s() - began_cpu_s) / hours, "s"),
        f"{name}: late": plain(float(outcome.was_late.mean()), "share"),
        f"{name}: utilisation": plain(outcome.utilisation, "share"),
    }


def _children_s() -> float:
    """Count the CPU time of processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    typer.run(main)
