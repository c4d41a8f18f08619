"""Answer how large a fleet must be: the cheapest that keeps a goal, or why there is none."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from core.errors import AllocationError
from scheduler.profile.profile import Profile
from simulator.report.costs import Prices
from simulator.sizing.frontier import Lattice
from simulator.sizing.goal import FleetTrial, Goal, price_of
from simulator.sizing.load import day_of_load
from simulator.sizing.reasons import in_trials, on_paper, unprovable
from simulator.sizing.relaxation import Relaxation
from simulator.sizing.search import Search
from simulator.sizing.trials import FleetTrials

#: The largest fleet tried could carry so many times the demand on paper.
LARGEST = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """What was found, and what it rests on."""

    goal: Goal
    slo_s: float
    prices: Prices
    best: FleetTrial | None  #: the cheapest fleet that keeps the goal; None: none does
    trials: tuple[FleetTrial, ...] = ()  #: cheapest first
    untried: int = 0  #: cheaper fleets that might do as well, left out for want of trials
    least: float | None = None  #: no fleet keeps the goal for less an hour; None: none at all
    #: level -> device type -> what an image costs on a worker that is never idle; only in time
    image_costs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    hours: float  #: that the day lasts
    reason: str = ""  #: why there is no fleet
    would_help: tuple[str, ...] = ()  #: what would let one do

    @property
    def price(self) -> float | None:
        """What the best fleet costs an hour."""
        return price_of(self.best.fleet, self.prices) if self.best else None

    @property
    def image_cost(self) -> float | None:
        """What an image of the best fleet costs, idle time and all."""
        if self.best is None:
            return None
        images = float(np.mean([day.images for day in self.best.days]))
        return price_of(self.best.fleet, self.prices) * self.hours / images if images else None


def answer(trials: FleetTrials, slo_s: float, prices: Prices, *, most: int) -> Sizing:
    """Search the cheapest fleet.

    Args:
        prices: by the device types that may be in it.
        most: fleets that are tried at most.
    """
    world, goal = trials.world, trials.goal
    day = day_of_load(world, prices, slo_s)
    nothing = Sizing(
        goal=goal,
        slo_s=slo_s,
        prices=prices,
        best=None,
        hours=max(world.workload.duration_s, 1.0) / 3600,
        image_costs=image_costs(world.profile, prices, slo_s),
    )
    jobs = sum(map(len, trials.days))
    if too_few := unprovable(jobs, len(trials.days), goal):
        return replace(nothing, reason=too_few.text, would_help=too_few.would_help)
    relaxation = Relaxation(day, goal)
    try:
        split = relaxation.cheapest(prices)
    except AllocationError:
        reason = on_paper(day, world, slo_s)
        return replace(nothing, reason=reason.text, would_help=reason.would_help)
    lattice = Lattice.around(split, prices, relaxation.carried, most=LARGEST)
    found = Search(lattice, prices, trials, most).run()
    missed = None if found.best else in_trials(found.trials, goal, slo_s)
    return replace(
        nothing,
        best=found.best,
        trials=tuple(sorted(found.trials, key=lambda trial: price_of(trial.fleet, prices))),
        untried=found.untried,
        least=price_of(split, prices),
        reason=missed.text if missed else "",
        would_help=missed.would_help if missed else (),
    )


def image_costs(profile: Profile, prices: Prices, slo_s: float) -> dict[str, dict[str, float]]:
    """Say what an image costs at each level on each device that makes it in time."""
    every = replace(profile, can_resume=True)
    taus = {
        level.name: {kind: every.tau_s(level, kind) for kind in prices} for level in every.levels
    }
    return {
        name: {kind: tau * prices[kind] / 3600 for kind, tau in row.items() if tau <= slo_s}
        for name, row in taus.items()
    }
