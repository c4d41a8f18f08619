"""Turn futures into jobs: when each comes, of which class, by which forecast. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scheduler.allocation.rollout.compiled import Floats, Ints
from scheduler.allocation.rollout.inputs import RolledJobs
from scheduler.allocation.rollout.scenarios import cells_of, foreseen, futures
from scheduler.allocation.rollout.tables import Tables

PERIOD_S = 10  #: between two plans
#: Jobs of all futures of one kind: where each has few, more are drawn, or mere luck would choose.
DRAWN_JOBS, MOST_DRAWS = 320, 8
TURN = 0.6180339887  #: between two turns: however many there are, they are far from each other


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
    jobs = max(1.0, rate * horizon_s / (board.scale * board.images))
    draws = max(1, min(MOST_DRAWS, round(DRAWN_JOBS / jobs)))
    for weight, work in futures(history, rate, horizon_s, rng, draws):
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
    drawn = _drawn(board, len(at), rng)
    each = np.repeat(np.arange(len(at)), drawn.images)
    return RolledJobs(
        at_s=np.concatenate([waiting.at_s, at[each]]),
        age_s=np.concatenate([waiting.age_s, np.zeros(len(each))]),
        promised_s=np.concatenate([waiting.promised_s, drawn.promised_s[each]]),
        bears_s=np.concatenate([waiting.bears_s, drawn.bears_s[each]]),
        weight=np.concatenate([waiting.weight, 1 / drawn.images[each]]),
        turn=np.concatenate([waiting.turn, turns(drawn.kind, len(board.shares), rng)[each]]),
        kind=np.concatenate([waiting.kind, drawn.kind[each]]),
        level=np.concatenate([waiting.level, np.full(len(each), -1, np.int64)]),
        cell=np.concatenate([np.full(len(waiting.cell), cells[0]), cells[second][each]]),
    )


class Drawn(NamedTuple):
    """Jobs as they came lately."""

    kind: Ints  #: class
    images: Ints
    promised_s: Floats
    bears_s: Floats


def _drawn(board: Tables, count: int, rng: np.random.Generator, *, by_image: bool = False) -> Drawn:
    """Draw jobs; or the job that an image is of: most images are of large ones."""
    ends = board.shares.cumsum()
    kind = np.searchsorted(ends / ends[-1], rng.random(count), side="right")
    which, rows = rng.random(count), np.ones((count, 3))
    lists = {id(known): known for known in board.asked}
    for key, known in lists.items():
        if len(lists) == 1:
            rows = _taken(known, which, by_image=by_image)
        else:
            of_it = np.isin(kind, [c for c, each in enumerate(board.asked) if id(each) == key])
            rows[of_it] = _taken(known, which[of_it], by_image=by_image)
    images = np.maximum(1, rows[:, 0].astype(np.int64))
    return Drawn(kind, images, promised_s=rows[:, 1], bears_s=rows[:, 2])


def _taken(known: Floats, which: Floats, *, by_image: bool) -> Floats:
    """Take of a list of jobs those that numbers in [0, 1) fall on."""
    if not by_image:
        return np.asarray(known[(which * len(known)).astype(np.int64)])
    parts = np.cumsum(known[:, 0])
    return np.asarray(known[np.searchsorted(parts, which * parts[-1], side="right")])


def turns(kinds: Ints, classes: int, rng: np.random.Generator) -> Floats:
    """Spread the turns of each class evenly, from anywhere: of few jobs the first is like any."""
    found = np.zeros(len(kinds))
    for c, first in enumerate(rng.random(classes)):
        of_it = np.flatnonzero(kinds == c)
        found[of_it] = (first + TURN * np.arange(len(of_it))) % 1.0
    return found


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
    drawn = _drawn(board, count, rng, by_image=True)
    return RolledJobs(
        at_s=np.zeros(count),
        age_s=ages[order],
        promised_s=drawn.promised_s,
        bears_s=drawn.bears_s,
        weight=1 / drawn.images,
        turn=np.zeros(count),
        kind=drawn.kind,
        level=levels[order],
        cell=np.zeros(count, np.int64),
    )
