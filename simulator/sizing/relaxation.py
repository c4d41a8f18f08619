"""Bound from above what a fleet can carry, by a linear program over the stretches of a day.

It is the allocation program of the scheduler without what only makes things harder: workers hold
every model at once and can be split, nothing waits, nothing loads, and prompts are known. So no
fleet carries more than it says, and fleets are ordered well by it; how much a fleet really carries
is found by simulation.

    max   k                                     times the demand
    s.t.  sum_lt g_sclt + u_sc = k W_sc         s: stretches of like demand, c: classes
          sum_cl tau_lt g_sclt <= N_t           each stretch; time on the workers of a type
          sum w_s u_sc / J_c <= late k jobs     w_s: how long a stretch lasts; J_c: work of a job
          sum w_s (Q_cl - q) g_sclt / J_c >= 0  mean quality

Jobs count alike however large they are. Where those of a class differ the large ones are taken to
be late or bad, and the small ones to be good: no division of them keeps the goal for less.

It is homogeneous: twice the fleet carries twice as much. Its dual prices bound every other fleet
too, k(N) <= sum y_t N_t, so a few solutions order thousands of fleets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ortools.math_opt.python import mathopt

from core.errors import AllocationError
from simulator.report.costs import Prices
from simulator.sizing.goal import Fleet, Goal, Split

Floats = NDArray[np.float64]

#: Of a fleet that a demand is weighed by: prices of capacity are exact enough at any size.
MOST_SCALE = 1e9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DayOfLoad:
    """A day in the program's terms."""

    types: tuple[str, ...]
    levels: tuple[str, ...]
    classes: tuple[str, ...]
    weight: Floats  #: [S], seconds that each group of stretches lasts
    demand: Floats  #: [S, C], images/s of default length
    tau: Floats  #: [L, T], seconds of a worker for an image; inf: not there, or never in time
    quality: Floats  #: [C, L]
    jobs: Floats  #: [C], of the whole day
    least: Floats  #: [C], images of default length that the smallest of them stands for
    most: Floats  #: [C], that the largest does


class Relaxation:
    """The program, written down once."""

    def __init__(self, day: DayOfLoad, goal: Goal) -> None:
        """Write it down; workers, prices and what is wanted come with each question."""
        self._day, self._goal = day, goal
        self._model = mathopt.Model(name="sizing")
        self._workers = [self._model.add_variable(lb=0.0, name=kind) for kind in day.types]
        self._scale = self._model.add_variable(lb=0.0, ub=MOST_SCALE, name="k")
        self._images: dict[tuple[int, int, int, int], mathopt.Variable] = {
            (s, c, level, t): self._model.add_variable(lb=0.0) for s, c, level, t in self._ways()
        }
        self._add_stretches()
        self._add_goal()

    def carried(self, fleet: Split) -> tuple[float, Floats]:
        """Say how many times the demand a fleet carries at most, and price its workers.

        Returns: k, and y by device type: no fleet N carries more than y N.
        """
        for kind, workers in zip(self._day.types, self._workers, strict=True):
            workers.lower_bound = workers.upper_bound = float(fleet.get(kind, 0))
        self._scale.lower_bound, self._scale.upper_bound = 0.0, MOST_SCALE
        self._model.maximize(self._scale)
        result = self._solved()
        prices = result.reduced_costs()
        worth = np.array([max(0.0, prices[workers]) for workers in self._workers])
        return result.objective_value(), worth

    def cheapest(self, prices: Prices) -> dict[str, float]:
        """Find the cheapest split workers that carry the demand once.

        Raises: AllocationError if no number of workers does.
        """
        for workers in self._workers:
            workers.lower_bound, workers.upper_bound = 0.0, float("inf")
        self._scale.lower_bound = self._scale.upper_bound = 1.0
        costs = [prices[kind] for kind in self._day.types]
        cost = mathopt.fast_sum(map(_times, costs, self._workers))
        self._model.minimize(cost)
        values = self._solved().variable_values()
        return {k: values[n] for k, n in zip(self._day.types, self._workers, strict=True)}

    def _solved(self) -> mathopt.SolveResult:
        result = mathopt.solve(self._model, mathopt.SolverType.GLOP)
        if not result.has_primal_feasible_solution():
            raise AllocationError("no number of these workers keeps the goal")
        return result

    def _ways(self) -> Iterator[tuple[int, int, int, int]]:
        stretches, classes = np.nonzero(self._day.demand)
        usable = [(int(level), int(t)) for level, t in np.argwhere(np.isfinite(self._day.tau))]
        for s, c in zip(stretches.tolist(), classes.tolist(), strict=True):
            yield from ((s, c, level, t) for level, t in usable)

    def _add_stretches(self) -> None:
        """Whatever comes is made or is late, and takes no more time than there is."""
        made: dict[tuple[int, int], list[mathopt.Variable]] = {}
        busy: dict[tuple[int, int], list[mathopt.LinearTerm]] = {}
        for (s, c, level, t), images in self._images.items():
            made.setdefault((s, c), []).append(images)
            busy.setdefault((s, t), []).append(float(self._day.tau[level, t]) * images)
        self._late = {}
        for s, c in np.argwhere(self._day.demand > 0).tolist():
            late = self._late[s, c] = self._model.add_variable(lb=0.0)
            whole = mathopt.fast_sum([*made.get((s, c), []), late])
            wanted = float(self._day.demand[s, c]) * self._scale
            self._model.add_linear_constraint(whole - wanted == 0.0)
        for (_, t), terms in busy.items():
            time = mathopt.fast_sum(terms)
            self._model.add_linear_constraint(time - self._workers[t] <= 0.0)

    def _add_goal(self) -> None:
        day, goal = self._day, self._goal
        late = [float(day.weight[s] / day.most[c]) * u for (s, c), u in self._late.items()]
        most = goal.max_late * float(day.jobs.sum()) * self._scale
        self._model.add_linear_constraint(mathopt.fast_sum(late) - most <= 0.0)
        gains = day.quality - goal.min_quality
        gains /= np.where(gains > 0, day.least[:, None], day.most[:, None])
        above = [
            float(day.weight[s] * gains[c, level]) * images
            for (s, c, level, _), images in self._images.items()
        ]
        self._model.add_linear_constraint(mathopt.fast_sum(above) >= 0.0)


def _times(cost: float, workers: mathopt.Variable) -> mathopt.LinearTerm:
    return cost * workers


def best_quality(day: DayOfLoad) -> float:
    """Say what quality unlimited workers would give."""
    can = np.isfinite(day.tau).any(axis=1)
    if not can.any():
        return 0.0
    return float(day.jobs @ day.quality[:, can].max(axis=1) / day.jobs.sum())


def grouped(rates: Floats, weight: Floats, most: int) -> tuple[Floats, Floats]:
    """Join stretches of like demand: their mean is easier to carry than they are.

    Units:   rates [S, C] and seconds [S] -> [at most `most`, C] and seconds
    """
    order = np.argsort(rates.sum(axis=1), kind="stable")
    parts = [part for part in np.array_split(order, most) if len(part)]
    seconds = np.array([weight[part].sum() for part in parts])
    means = [weight[part] @ rates[part] / weight[part].sum() for part in parts]
    return np.array(means), seconds


def fleet_of(types: Sequence[str], counts: Sequence[int]) -> Fleet:
    """Name counts by their types."""
    return dict(zip(types, map(int, counts), strict=True))
