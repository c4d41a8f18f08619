"""Allocation policy `atelier`: roll candidate divisions out over futures, take the best. Pure.

The program says what would be best if what is expected came, and all were loaded. What a change
costs until then, what waits, what comes instead of what is expected, and how rows and overflow
routing meet it, a rollout sees: every candidate serves the same futures, job by job, and the one
that delivers the most quality in time wins. A candidate with at least today's capacity wins by
little, one with less by more: to be late costs all of a job's quality, to be slow some of it.

Random draws are seeded by what has arrived, so the same instance gives the same allocation.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from core.errors import AllocationError
from scheduler.allocation.allocate import allocate
from scheduler.allocation.problem import Allocation, Instance, Slot
from scheduler.allocation.rollout.candidates import STAY, candidates
from scheduler.allocation.rollout.change import room, slots_of, transition
from scheduler.allocation.rollout.compiled import Floats
from scheduler.allocation.rollout.futures import PERIOD_S, Arrivals, draw
from scheduler.allocation.rollout.inputs import RolledFleet, RolledJobs, Served
from scheduler.allocation.rollout.kernel import roll
from scheduler.allocation.rollout.rows import ROUNDS, share
from scheduler.allocation.rollout.scenarios import GRID
from scheduler.allocation.rollout.tables import Tables, scaled, tables
from scheduler.allocation.situation import Situation
from scheduler.allocation.transition import serve

HORIZON_S, LONGEST_S = 40.0, 240.0
LOADS = 2.0  #: a rollout looks so many times as far ahead as the longest load takes
UP, DOWN = 0.003, 0.0  #: goodput that a change must gain: to as much capacity, and to less
EARLY_S, EARLY = 10, 0.1  #: and as much while history is so short: of few arrivals much is noise
MOVED = 0.04  #: and more, if all workers are moved: of many candidates the luckiest seems best

#: What is left at the end costs as many jobs as come in about so long: the next plans see to it.
#: It costs more where more is left: in the worst crowd all is late, and who clears it sooner wins.
LATER_S, LATER = 5.0, 0.35
LEAST_SPARE = 0.1  #: share of the workers' time that clears what is left, at least
ROUNDING = 1e-9  #: of a score

Key = tuple[int, ...]  #: counts, by slot of the instance


def rollout(instance: Instance) -> Allocation:
    """Divide the fleet as it delivers most over the futures that may come.

    Before anything comes it is the program's allocation, and for some seconds after that a fleet
    stays as it is.

    Raises: AllocationError if no allocation is found.
    """
    program = allocate(instance)
    if instance.situation is None or not instance.situation.history:
        return program
    choice = _choice(instance, instance.situation, program)
    counts = slots_of(instance, choice.key)
    if counts == dict(program.counts):
        return replace(program, reason=choice.reason, expected=choice.expected)
    try:
        found = serve(instance, counts)
    except AllocationError:
        return replace(program, reason="program: no rows were found for another")
    return replace(found, counts=counts, reason=choice.reason, expected=choice.expected)


class Choice(NamedTuple):
    """A candidate, and why."""

    key: Key
    reason: str
    expected: float | None = None  #: mean quality of what is made until the next plan


class RolledOut:
    """One target in each future, rolled out as far as somebody asks."""

    def __init__(self, serve_one: Callable[[RolledJobs], Served], arrivals: Arrivals) -> None:
        """Have rolled out none yet."""
        self._serve_one, self._arrivals = serve_one, arrivals
        self._served: list[Served] = []

    def __getitem__(self, future: int) -> Served:
        """Say what becomes of a future: of one after the other."""
        while len(self._served) <= future:
            self._served.append(self._serve_one(self._arrivals.futures[len(self._served)][1]))
        return self._served[future]


class Rollouts:
    """Candidates rolled out over the same futures."""

    def __init__(self, board: Tables, horizon_s: int) -> None:
        """Draw the futures."""
        self._board = board
        self._fleet: RolledFleet = board.fleet()
        history = np.array(board.situation.history, float)
        rng = np.random.default_rng(board.situation.seed)
        self._arrivals: Arrivals = draw(board, history, horizon_s, rng)
        self._rows: dict[bytes, Floats] = {}  #: by the time that workers have
        self._until_s = float(horizon_s)
        self._patience_s = 0.5 * board.promised_s
        self._images = board.images
        self._capacities: dict[Key, float] = {}
        self._rolled: dict[tuple[tuple[Slot, int], ...], RolledOut] = {}
        self._most = _most_earned(self._arrivals, board.levels.quality.max(axis=1))
        self._soon: dict[Key, tuple[float, float]] = {}  #: quality and jobs of what comes soon

    def score(self, key: Key, above: float = -math.inf) -> float | None:
        """Expect the goodput of a candidate, per job, in [0, 1]; None: it is not above that.

        One that would not be even with all jobs of the other futures at their best is left alone.
        """
        arrivals, jobs_of_all = self._arrivals, max(1e-9, self._arrivals.weighed_jobs)
        target = scaled(slots_of(self._board.instance, key), self._board.seats)
        rolled = self._rolled_out(target)
        total, soon, soon_jobs = 0.0, 0.0, 0.0
        for future, (weight, jobs) in enumerate(arrivals.futures):
            if (total + self._most[future]) / jobs_of_all < above - ROUNDING:
                return None
            found = rolled[future]
            lost = self._lost_later(key, float(jobs.weight.sum()), found.behind_s)
            total += weight * (found.earned - lost)
            soon += weight * found.soon
            soon_jobs += weight * found.soon_jobs
        self._soon[key] = (soon, soon_jobs)
        return float(total / jobs_of_all)

    def _rolled_out(self, target: Mapping[Slot, int]) -> RolledOut:
        """Begin a target; of a large fleet several candidates are the same when scaled down."""
        known = tuple(sorted(target.items()))
        if known not in self._rolled:
            board = self._board
            change = transition(board, target)
            soon = [self._rows_of(counts, clears=True) for counts in (change.now, target)]
            rows = np.stack([*soon, self._rows_of(target)])
            ends_s = (float(PERIOD_S), self._until_s)

            def serve_one(jobs: RolledJobs) -> Served:
                return roll(
                    board.levels, self._fleet, change.changes, jobs, rows, change.settled_s, ends_s
                )

            self._rolled[known] = RolledOut(serve_one, self._arrivals)
        return self._rolled[known]

    def expected(self, key: Key) -> float | None:
        """Expect the quality of what comes until the next plan, of a candidate that has a score."""
        quality, jobs = self._soon[key]
        return quality / jobs if jobs else None

    def _lost_later(self, key: Key, jobs: float, behind_s: Floats) -> float:
        """Count the jobs that will be late because of those that are left at the end.

        Whoever comes to a worker waits for them; they grow less as fast as workers end more than
        arrives.
        """
        rate = jobs / self._until_s
        images = rate * self._images * self._board.scale
        spare = max(LEAST_SPARE, 1.0 - images / max(1e-9, self.capacity(key)))
        waits_s = np.maximum(0.0, behind_s - self._patience_s)
        if not waits_s.any():
            return 0.0
        return LATER * rate * LATER_S * float(np.log1p(waits_s / spare / LATER_S).mean())

    def capacity(self, key: Key) -> float:
        """Count the jobs a second that a candidate ends at the fastest levels of its models."""
        found = self._capacities.get(key)
        if found is None:
            uses, counts = self._board.uses, self._board.counts(slots_of(self._board.instance, key))
            fastest = np.full(len(counts), np.inf)
            np.minimum.at(fastest, uses.slot, uses.seconds)
            found = self._capacities[key] = float((counts / fastest).sum())
        return found

    def _rows_of(self, counts: Mapping[Slot, int], *, clears: bool = False) -> Floats:
        board = self._board
        seconds = room(board, counts, clears=clears)
        key = seconds.tobytes()
        if key not in self._rows:
            self._rows[key] = np.stack(
                [
                    share(
                        board.levels.quality,
                        board.shares * GRID**cell / board.scale,
                        board.uses,
                        seconds,
                        ROUNDS,
                    )
                    for cell in self._arrivals.cells
                ]
            )
        return self._rows[key]


def _choice(instance: Instance, situation: Situation, program: Allocation) -> Choice:
    named = candidates(instance, situation, program)
    horizon_s = min(LONGEST_S, max(HORIZON_S, LOADS * max(instance.load.values(), default=0.0)))
    board = tables(instance, situation, horizon_s)
    if board is None:
        key = tuple(program.counts.get(slot, 0) for slot in instance.slots)
        return Choice(key, named.get(key, "program"))
    rollouts = Rollouts(board, int(horizon_s))
    if not situation.is_telling:
        named = {key: name for key, name in named.items() if name == STAY}
    is_early = len(situation.history) < EARLY_S
    return _best(named, rollouts, least=EARLY if is_early else 0.0)


def _most_earned(arrivals: Arrivals, quality: Floats) -> list[float]:
    """Say how much each future and all after it earn at most: every job in time at its best level.

    Shapes: quality [C]
    """
    most = [
        weight * float((jobs.weight * np.maximum(0.0, quality)[jobs.kind]).sum())
        for weight, jobs in arrivals.futures
    ]
    return [sum(most[future:]) for future in range(len(most))]


def _best(named: Mapping[Key, str], rollouts: Rollouts, least: float) -> Choice:
    """Choose the candidate of the highest score; a change must gain so much at least."""
    stay = next(iter(named))
    workers = max(1, sum(stay))
    dear = {key: MOVED * _moves(stay, key) / workers for key in named}
    scores: dict[Key, float] = {}
    highest = -math.inf
    for key in named:
        score = rollouts.score(key, above=highest + dear[key])
        if score is not None:
            scores[key], highest = score, max(highest, score - dear[key])
    best = max(scores, key=lambda key: (scores[key] - dear[key], key == stay))
    gain = scores[best] - scores[stay]
    is_less = rollouts.capacity(best) < rollouts.capacity(stay) * (1 - 1e-9)
    if gain <= max(least, dear[best] + (DOWN if is_less else UP)):
        reason = f"{STAY}: {scores[stay]:.3f} expected, {named[best]} +{gain:.3f}"
        return Choice(stay, reason, rollouts.expected(stay))
    reason = f"{named[best]}: {scores[best]:.3f} expected, +{gain:.3f} over staying"
    return Choice(best, reason, rollouts.expected(best))


def _moves(one: Key, other: Key) -> int:
    """Count the workers that have another model."""
    return sum(max(0, after - before) for before, after in zip(one, other, strict=True))
