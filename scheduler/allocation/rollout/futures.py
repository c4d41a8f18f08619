"""Turn futures into jobs: when each comes, of which class, by which forecast. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scheduler.allocation.rollout.compiled import Floats, Ints
from scheduler.allocation.rollout.kernel import RolledJobs
from scheduler.allocation.rollout.scenarios import cells_of, foreseen, futures
from scheduler.allocation.rollout.tables import Tables

PERIOD_S = 10  #: between two plans


class Arrivals(NamedTuple):
    """Every future, with what waits already at its head."""

    futures: Sequence[tuple[float, RolledJobs]]  #: weight, jobs
    cells: Sequence[int]  #: forecasts that rows are needed for, as powers of the grid
    weighed_jobs: float


def draw(board: Tables, history: Floats, horizon_s: int, rng: np.random.Generator) -> Arrivals:
    """Draw the jobs of every future."""
    rate = sum(demand.rate for demand in board.demands)
    waiting = _waiting(board, rng)
    drawn = []
    for weight, work in futures(history, rate, horizon_s, rng):
        cells = cells_of(foreseen(history, work, rate, PERIOD_S))
        drawn.append((weight, _jobs(board, work, cells, waiting, rng)))
    cells = np.unique(np.concatenate([jobs.cell for _, jobs in drawn]))
    numbered = [
        (weight, jobs._replace(cell=np.searchsorted(cells, jobs.cell))) for weight, jobs in drawn
    ]
    return Arrivals(
        futures=numbered,
        cells=[int(cell) for cell in cells],
        weighed_jobs=sum(weight * float(jobs.weight.sum()) for weight, jobs in numbered),
    )


def _jobs(
    board: Tables, work: Floats, cells: Ints, waiting: RolledJobs, rng: np.random.Generator
) -> RolledJobs:
    """Spread what arrives in each second over it; the images of one job come together."""
    jobs = work / (board.scale * board.images)
    counts = np.floor(jobs + rng.random(len(work))).astype(np.int64)
    second = np.repeat(np.arange(len(work)), counts)
    at = np.sort(second + rng.random(len(second)))
    kind, images, promised_s = _kinds(board, len(at), rng)
    each = np.repeat(np.arange(len(at)), images)
    return RolledJobs(
        at_s=np.concatenate([waiting.at_s, at[each]]),
        age_s=np.concatenate([waiting.age_s, np.zeros(len(each))]),
        promised_s=np.concatenate([waiting.promised_s, promised_s[each]]),
        weight=np.concatenate([waiting.weight, 1 / images[each]]),
        kind=np.concatenate([waiting.kind, kind[each]]),
        level=np.concatenate([waiting.level, np.full(len(each), -1, np.int64)]),
        cell=np.concatenate([np.full(len(waiting.cell), cells[0]), cells[second][each]]),
    )


def _kinds(board: Tables, count: int, rng: np.random.Generator) -> tuple[Ints, Ints, Floats]:
    """Draw class and images of jobs, as they came lately, and their class's usual promise.

    Not each job's own: it is larger where there are many images, and engines let small jobs pass
    large ones for that, which the queues of a rollout do not.
    """
    kind = rng.choice(len(board.shares), size=count, p=board.shares).astype(np.int64)
    which, images, promised_s = rng.random(count), np.ones(count, np.int64), np.zeros(count)
    for c, known in enumerate(board.asked):
        of_it = kind == c
        images[of_it] = known[(which[of_it] * len(known)).astype(np.int64), 0]
        promised_s[of_it] = board.usually_s[c]
    return kind, np.maximum(1, images), promised_s


def _waiting(board: Tables, rng: np.random.Generator) -> RolledJobs:
    """Guess the jobs that wait: at most as old as the first, at their model's usual level."""
    age, level = [np.zeros(0)], [np.zeros(0, np.int64)]
    for model, known in sorted(board.situation.waiting.items()):
        count = round(known.images / board.scale)
        if count and model in board.models:
            age.append(np.linspace(known.oldest_s, 0.0, count, endpoint=False))
            level.append(np.full(count, board.usual_level(model), np.int64))
    ages, levels = np.concatenate(age), np.concatenate(level)
    order = np.argsort(-ages, kind="stable")
    count = len(order)
    kind, images, promised_s = _kinds(board, count, rng)
    return RolledJobs(
        at_s=np.zeros(count),
        age_s=ages[order],
        promised_s=promised_s,
        weight=1 / images,
        kind=kind,
        level=levels[order],
        cell=np.zeros(count, np.int64),
    )
