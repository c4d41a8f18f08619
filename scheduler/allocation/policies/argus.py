"""Argus baseline: counts and loads first, then classes (Argus §4.2-4.3). Pure.

Taken from the paper: Eq. 1, which sees the average quality of each level; then the map from
optimal levels to levels (PASM) that meets these loads, by Algorithm 1 repaired
(`scheduler/allocation/policies/shift`). One strategy at a time, whichever Eq. 1 finds better at
this load; of equals AC, where only K differs (§4.6).
Simplified: Eq. 1 is written with flows, for several device types and applications, and serves
what it can where the paper's is infeasible. A worker serves every K of the model it holds, so
switching K costs nothing here, as in the paper. The margin of 1.5 during a switch is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.allocation.allocate import allocate
from scheduler.allocation.policies.class_blind import Blind, merged
from scheduler.allocation.policies.level_choice import (
    Choice,
    cached,
    narrowed,
    optimal,
    plain,
    seconds,
)
from scheduler.allocation.policies.oda import shifted
from scheduler.allocation.problem import Allocation, Flow, Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyOption:
    """What Eq. 1 makes of one approximation strategy."""

    instance: Instance  #: with the levels of this strategy alone
    blind: Blind
    plan: Allocation  #: without classes

    @property
    def score(self) -> float:
        """Rounded to where the strategies are as good as each other."""
        return round(self.plan.objective or 0.0, 5)


def argus(instance: Instance) -> Allocation:
    """Allocate by Eq. 1, then shift as few prompts from their optimal levels as that allows.

    Raises: AllocationError if there is no allocation.
    """
    best = _best_strategy(instance)
    given: list[list[Flow]] = [[] for _ in best.blind.shares]
    for flow in best.plan.flows:
        given[flow.demand].append(flow)
    rows = zip(best.blind.shares, given, strict=True)
    flows = [flow for row in rows for flow in _aligned(best.instance, *row)]
    return replace(best.blind.spread(best.plan), flows=tuple(flows))


def pac(instance: Instance) -> Allocation:
    """Allocate by Eq. 1 and let prompts of any class take any level: Argus without PASM (§5.1).

    Raises: AllocationError if there is no allocation.
    """
    best = _best_strategy(instance)
    return best.blind.spread(best.plan)


def _best_strategy(instance: Instance) -> StrategyOption:
    is_exact = all(level.is_exact for level in instance.levels)
    choices = (plain,) if is_exact else (cached, plain)
    return max((_solved(instance, choice) for choice in choices), key=lambda each: each.score)


def _solved(instance: Instance, choice: Choice) -> StrategyOption:
    narrow = narrowed(instance, choice)
    blind = merged(narrow)
    return StrategyOption(instance=narrow, blind=blind, plan=allocate(blind.seen))


def _aligned(instance: Instance, shares: Mapping[int, float], given: Sequence[Flow]) -> list[Flow]:
    """Divide among classes what was given to all of them, by Algorithm 1.

    Args:
        shares: demand, one of each class -> its share of what was given.
    """
    loads: dict[str, float] = {}
    for flow in given:
        loads[flow.level] = loads.get(flow.level, 0.0) + flow.rate
    if not loads:
        return []
    served = sum(loads.values())
    own = {i: _optimal_of(instance, i) for i, share in shares.items() if share > 0}
    pasm = _pasm(instance, own, {i: shares[i] * served for i in own}, loads)
    return [
        replace(flow, demand=i, rate=rate)
        for i, level in own.items()
        for flow in given
        if (rate := shares[i] * served * pasm[level][flow.level] * flow.rate / loads[flow.level])
    ]


def _pasm(
    instance: Instance,
    own: Mapping[int, str],
    rates: Mapping[int, float],
    loads: Mapping[str, float],
) -> dict[str, dict[str, float]]:
    """Map optimal levels to levels: the share of their prompts that takes each of these.

    Args:
        own: demand -> its optimal level.
        rates: demand -> jobs/s.
        loads: level -> jobs/s that it serves, F.
    """
    by_name = {level.name: level for level in instance.levels}
    levels = sorted({*own.values(), *loads}, key=lambda x: (-seconds(instance, by_name[x]), x))
    affinity = dict.fromkeys(levels, 0.0)
    for i, level in own.items():
        affinity[level] += rates[i]
    at = shifted([affinity[x] for x in levels], [loads.get(x, 0.0) for x in levels])
    return {
        level: {
            target: amount / affinity[level] for target, amount in zip(levels, row, strict=True)
        }
        for level, row in zip(levels, at, strict=True)
        if affinity[level] > 0
    }


def _optimal_of(instance: Instance, demand: int) -> str:
    row = instance.demands[demand]
    return optimal(instance, row.affinity, instance.levels_of(row)).name
