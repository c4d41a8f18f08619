"""Benchmark ETA accuracy, and goodput of policies that drop late jobs.

Jobs of several levels come to workers in virtual time (`parts/simulated_workers`), with measured
costs of `shapes-xl`. Each is told when it will be done, from what the workers said last. Its
deadline is three times what a job of all steps takes alone, or twice, which is less than it takes
in full company. Then the same jobs come again under each way of giving up late ones
(docs/adr/0010).

    python -m bench.deadlines --quick
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from bench.parts.report import Figure, at_least, at_most, finish, machine, median, percentile, plain
from bench.parts.simulated_workers import Asked, Drop, Workshop
from catalog.models import read_models
from core.boards.cost import Cost
from core.levels.approximation import SKIPS, skipping
from scheduler.profile.profile import Profile
from scheduler.profile.profile_file import read_measured

ZOO = Path(__file__).parents[1] / "zoo"
MODEL, DEVICE = "shapes-xl", "cpu"
WORKERS, SLOTS = 4, 8
LOADS = (0.5, 0.8, 1.0, 1.3)  #: of what full batches could make
SLO_FACTOR, TIGHT_FACTOR = 3.0, 2.0  #: times what a job of all steps takes alone


def measured_cost() -> tuple[Cost, int]:
    """Read what a step of the model costs, and how many it takes."""
    models = read_models(ZOO / "weights")
    profile = Profile(models=models, measured=read_measured(ZOO / "profile.json"))
    return profile.cost(MODEL, DEVICE), models[MODEL].default_steps


def some_jobs(
    cost: Cost, steps: int, load: float, minutes: float, factor: float, seed: int
) -> list[Asked]:
    """Draw jobs of every level that come at a share of what the workers could make."""
    rng = np.random.default_rng(seed)
    lengths = [round(steps * skipping(k).share_of_steps) for k in (0, *SKIPS)]
    mean = sum(lengths) / len(lengths)
    full = WORKERS * SLOTS / (mean * cost.step_s(SLOTS) + SLOTS * cost.fixed_s)
    ends = np.cumsum(rng.exponential(1 / (load * full), int(60 * minutes * load * full)))
    slo_s = factor * cost.image_s(steps)
    return [Asked(at=float(at), steps=int(rng.choice(lengths)), deadline_s=slo_s) for at in ends]


def made(cost: Cost, jobs: Sequence[Asked], drop: Drop) -> list[Asked]:
    """Let the same jobs come to fresh workers."""
    copies = [replace(job) for job in jobs]
    Workshop(cost, workers=WORKERS, slots=SLOTS, drop=drop).make(copies)
    return copies


def errors(jobs: Sequence[Asked]) -> list[float]:
    """Compare what was said with what came, of each job that was made.

    Units: relative to what came
    """
    pairs = [(job.predicted_s, job.done_s) for job in jobs if job.done_s is not None]
    return [abs(said - came) / came for said, came in pairs]


def main(
    quick: Annotated[bool, typer.Option(help="Four minutes of jobs, not thirty.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The last line only.")] = False,
) -> None:
    """Measure predictions and drop policies. Example: `python -m bench.deadlines --quick`."""
    cost, steps = measured_cost()
    figures: dict[str, Figure] = {}
    for factor, load in product((SLO_FACTOR, TIGHT_FACTOR), LOADS):
        jobs = some_jobs(cost, steps, load, 4 if quick else 30, factor, seed=0)
        runs = {drop: made(cost, jobs, drop) for drop in Drop}
        figures |= _figures(f"{load:.0%} load" + ", tight" * (factor < SLO_FACTOR), runs)
    raise SystemExit(finish("deadlines", figures, where=machine("1 thread"), is_json=as_json))


def _figures(name: str, runs: dict[Drop, list[Asked]]) -> dict[str, Figure]:
    off = errors(runs[Drop.DOOR])
    taken = [job for job in runs[Drop.DOOR] if not job.is_refused]
    in_time = {drop: _share(runs[drop]) for drop in Drop}
    figures = {
        f"{name}: prediction off by, median": at_most(median(off), 0.25, "of what came"),
        f"{name}: prediction off by, p90": plain(percentile(off, 0.9), "of what came"),
        f"{name}: taken and missed, {Drop.DOOR}": plain(1 - _share(taken), "of those taken"),
    }
    for drop, share in in_time.items():
        figures[f"{name}: in time, dropped {drop}"] = plain(share, "of all")
    best = max(in_time[Drop.NEVER], in_time[Drop.LATE])
    ratio = in_time[Drop.DOOR] / best
    return figures | {f"{name}: in time, {Drop.DOOR} / best other": at_least(ratio, 0.95, "")}


def _share(jobs: Sequence[Asked]) -> float:
    return sum(job.is_in_time for job in jobs) / len(jobs)


if __name__ == "__main__":
    typer.run(main)
