"""Benchmark 10,000 workers in cells, one of which is lost for a while, in virtual time.

Tenants of very different sizes ask as the router's own code sends them: to their homes, but for
what the plan over cells moves; while a cell is away its tenants' jobs go elsewhere, and what it had
accepted is made when it is back. Beside it the same without the plan over cells.

    python -m bench.cells --quick
"""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from bench.parts.report import Figure, at_most, finish, machine, plain
from core.application import DEFAULT
from core.boards.demand import Stream
from core.boards.fleet import Worker
from core.cells.capacity import CellCapacity
from core.log import configure
from loadgen.prompts import read_prompts
from loadgen.workload import Workload
from scheduler.allocation.allocate import allocate
from scheduler.planning.decide import decide
from scheduler.planning.snapshot import Snapshot
from simulator.cell_routing import CellWorld, route
from simulator.inputs import EXAMPLE, EXAMPLE_PROMPTS, read_devices
from simulator.outcome import PolicyOutcome
from simulator.run import simulate
from simulator.world import Outage, World

CELLS = 10
WORKERS = 10_000
RATE = 0.43  #: requests a second for each worker
POLICY = "atelier"
BEGIN_S, END_S, LAST_S = 90.0, 180.0, 270.0  #: the cell is lost, is back, and the last request
TENANTS = 2000
SPREAD = 1.5  #: of the logarithm of how much tenants ask for
DEVICE = "h200"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What became of the requests of some stretch."""

    in_time: float  #: share of the requests
    goodput: float  #: quality of jobs in time, over all requests
    never: int  #: accepted and never made


def main(
    quick: bool = typer.Option(False, help="1,000 workers."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Lose one cell of ten. Example: `python -m bench.cells`."""
    configure("error", is_json=False)
    figures = loss(WORKERS // 10 if quick else WORKERS)
    raise SystemExit(finish("cells", figures, where=machine("2 processes"), is_json=as_json))


def loss(workers: int) -> dict[str, Figure]:
    """Lose a cell, with the plan over cells and without."""
    world, tenant = a_world(workers)
    figures: dict[str, Figure] = {}
    for is_planned in (True, False):
        outcomes, lost = run(world, tenant, is_planned=is_planned)
        figures |= _told("" if is_planned else "homes alone, ", outcomes, lost)
    return figures


def a_world(workers: int) -> tuple[World, NDArray[np.int64]]:
    """Draw requests of tenants who ask for very different amounts; also whose each is."""
    known, prompts = read_devices(EXAMPLE), read_prompts(EXAMPLE_PROMPTS)
    drawn = np.random.default_rng(0)
    at_s = np.cumsum(drawn.exponential(1 / (RATE * workers), int(RATE * workers * LAST_S)))
    sizes = drawn.lognormal(0.0, SPREAD, TENANTS)
    world = World(
        fleet={DEVICE: workers},
        profile=known.profile,
        workload=Workload.of(
            at_s, prompts=prompts.texts, prompt=drawn.integers(0, len(prompts), len(at_s))
        ),
        prompts=prompts,
        slots=8,
    )
    return world, drawn.choice(TENANTS, len(at_s), p=sizes / sizes.sum())


def run(
    world: World, tenant: NDArray[np.int64], *, is_planned: bool
) -> tuple[list[PolicyOutcome], PolicyOutcome]:
    """Simulate every cell with the requests that come to it; also tell which one was lost."""
    names = [f"c{number}" for number in range(CELLS)]
    each = world.fleet[DEVICE] // CELLS
    outage = Outage(begin_s=BEGIN_S, end_s=END_S, workers=each)
    cell = published(world, each, RATE * each)
    routed = CellWorld(
        capacities=dict.fromkeys(names, cell),
        at_s=world.workload.at_s,
        tenant=tenant,
        tenants=[f"tenant-{number}" for number in range(TENANTS)],
        lost=names[0],
        outage=outage,
    )
    chosen = route(routed, is_planned=is_planned)
    parts = [
        replace(
            world,
            fleet={DEVICE: each},
            workload=_those(world.workload, np.flatnonzero(chosen == number)),
            outages=(outage,) if number == 0 else (),
            seed=number,
        )
        for number in range(CELLS)
    ]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), initializer=_quietly) as pool:
        outcomes = list(pool.map(_simulated, parts))
    return outcomes, outcomes[0]


def published(world: World, workers: int, rate: float) -> CellCapacity:
    """Say what a cell publishes: the scheduler's own decision for it."""
    fleet = [
        Worker(name=f"w{n}", device_type=DEVICE, models=(), queues=(), memory_gib=80.0)
        for n in range(workers)
    ]
    stream = Stream(application=DEFAULT, models=tuple(sorted(world.profile.models)))
    snapshot = Snapshot(workers=fleet, rates={stream: rate}, tells_capacity=True)
    found = decide(snapshot, world.profile, allocate)
    return CellCapacity(segments=found.capacity, demand=rate)


def delivered(outcomes: list[PolicyOutcome], since_s: float, until_s: float) -> Delivered:
    """Look at the requests of a stretch, in whatever cell they were."""
    rows = [(each.at_s >= since_s) & (each.at_s < until_s) for each in outcomes]
    late = np.concatenate([e.was_late[r] for e, r in zip(outcomes, rows, strict=True)])
    quality = np.concatenate([e.quality[r] for e, r in zip(outcomes, rows, strict=True)])
    ended = np.concatenate([e.ended_s[r] for e, r in zip(outcomes, rows, strict=True)])
    refused = np.concatenate([e.was_refused[r] for e, r in zip(outcomes, rows, strict=True)])
    return Delivered(
        in_time=float(1 - late.mean()),
        goodput=float(np.where(late, 0.0, np.nan_to_num(quality)).mean()),
        never=int((np.isnan(ended) & ~refused).sum()),
    )


def _told(name: str, outcomes: list[PolicyOutcome], lost: PolicyOutcome) -> dict[str, Figure]:
    """Say what was delivered before, while the cell was lost, and after."""
    stretches = {
        "before the loss": (30.0, BEGIN_S - 15.0),
        "around the loss": (BEGIN_S - 15.0, BEGIN_S + 30.0),
        "while it is lost": (BEGIN_S + 30.0, END_S),
        "when it is back": (END_S, END_S + 30.0),
        "after that": (END_S + 30.0, LAST_S),
    }
    figures: dict[str, Figure] = {}
    for stretch, ends in stretches.items():
        found = delivered(outcomes, *ends)
        figures |= {
            f"{name}{stretch}: in time": plain(found.in_time, "share"),
            f"{name}{stretch}: delivered": plain(found.goodput, "of the best"),
        }
    whole = delivered(outcomes, 0.0, LAST_S)
    waited = (lost.at_s < BEGIN_S) & ~(lost.ended_s < BEGIN_S) & ~lost.was_refused
    return figures | {
        f"{name}accepted and never made": at_most(whole.never, 0, "jobs"),
        f"{name}of these in the lost cell when it went": plain(float(waited.sum()), "jobs"),
    }


def _those(workload: Workload, rows: NDArray[np.int64]) -> Workload:
    columns: dict[str, Any] = {name: column[rows] for name, column in workload.columns.items()}
    return replace(workload, **columns)


def _quietly() -> None:
    configure("error", is_json=False)


def _simulated(world: World) -> PolicyOutcome:
    return simulate(world, POLICY)


if __name__ == "__main__":
    typer.run(main)
