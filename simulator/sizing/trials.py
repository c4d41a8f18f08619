"""Put fleets on trial: simulate days of load until it is clear whether they keep a goal."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from loadgen.workload import Workload
from simulator.outcome import PolicyOutcome
from simulator.sizing.days import another_day
from simulator.sizing.goal import Day, Fleet, FleetTrial, Goal, is_hopeless, judge
from simulator.world import World

#: Simulates a world under the policy that is planned for.
Run = Callable[[World], PolicyOutcome]
#: Hears of each day that is about to be simulated: the fleet, and the number of the day.
Heard = Callable[[Fleet, int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTrials:
    """Days on which fleets are tried, the same for all: the day itself, and others like it."""

    world: World  #: its fleet is left out of account
    goal: Goal
    days: tuple[Workload, ...]
    run: Run
    heard: Heard = lambda fleet, day: None

    @classmethod
    def of(cls, world: World, slo_s: float, goal: Goal, run: Run, *, days: int) -> "FleetTrials":
        """Draw the days."""
        drawn = [another_day(world.workload, slo_s, seed=seed) for seed in range(days)]
        return cls(world=replace(world, slo_s=slo_s), goal=goal, days=tuple(drawn), run=run)

    def __call__(self, fleet: Fleet) -> FleetTrial:
        """Simulate one day after the other, as long as there is doubt."""
        there = {kind: count for kind, count in fleet.items() if count}
        seen: list[Day] = []
        for number, workload in enumerate(self.days):
            self.heard(fleet, number)
            seed = self.world.seed + number
            world = replace(self.world, fleet=there, workload=workload, seed=seed)
            seen.append(day_of(self.run(world), workload, self.goal))
            trial = judge(fleet, seen, self.goal)
            if is_hopeless(trial, self.goal):
                break
        return trial


def day_of(outcome: PolicyOutcome, workload: Workload, goal: Goal) -> Day:
    """Sum a simulated day up."""
    counted = outcome.is_counted
    jobs = int(counted.sum())
    made = counted & ~np.isnan(outcome.ended_s)
    quality = outcome.quality[made & ~np.isnan(outcome.quality)]
    levels = np.bincount(outcome.level[made].astype(np.int64), minlength=len(outcome.levels))
    shares = zip(outcome.levels, (levels / max(1, levels.sum())).tolist(), strict=True)
    return Day(
        jobs=jobs,
        late=float(outcome.was_late.sum()) / jobs if jobs else 0.0,
        quality=float(quality.mean()) if len(quality) else 0.0,
        goodput=outcome.goodput,
        utilisation=outcome.utilisation,
        images=float(workload.images[made].sum()),
        reach_s=_reach_s((outcome.ended_s - outcome.at_s)[counted], goal.max_late),
        levels={level: share for level, share in shares if share},
    )


def _reach_s(seconds: NDArray[np.float64], max_late: float) -> float:
    """Say within what time all but a share of the jobs were made; inf if more never were."""
    ordered = np.sort(np.where(np.isnan(seconds), np.inf, seconds))
    within = math.ceil((1 - max_late) * len(ordered) - 1e-9)
    return float(ordered[max(0, within - 1)]) if len(ordered) else 0.0
