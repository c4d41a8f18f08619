"""Argus baseline: counts and loads first, then classes (Argus §4.2-4.3). Pure.

Taken from the paper: Eq. 1, which sees the average quality of each level; then the map from
optimal levels to levels (PASM) that meets these loads, by Algorithm 1 repaired
(`scheduler/allocation/policies/oda`). One strategy at a time: approximate caching by default, and
smaller models while latents cannot be had (§4.6).
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
class Solved:
    """What Eq. 1 makes of the strategy in force."""

    instance: Instance  #: with the levels of this strategy alone
    blind: Blind
    plan: Allocation  #: without classes


def argus(instance: Instance) -> Allocation:
    """Allocate by Eq. 1, then shift as few prompts from their optimal levels as that allows.

    Raises: AllocationError if there is no allocation.
    """
    best = _solved(instance)
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
    best = _solved(instance)
    return best.blind.spread(best.plan)


def ac(instance: Instance) -> Allocation:
    """Have every worker hold the best model, and choose each K by the joint program.

    The rule that Argus' default comes down to, with the best rows there are: no load, ever, unless
    latents cannot be had.

    Raises: AllocationError if there is no allocation.
    """
    return allocate(narrowed(instance, _strategy(instance)))


def _strategy(instance: Instance) -> Choice:
    """Approximate caching, or smaller models where no level starts from latents (§4.6)."""
    return cached if any(not level.is_exact for level in instance.levels) else plain


def _solved(instance: Instance) -> Solved:
    narrow = narrowed(instance, _strategy(instance))
    blind = merged(narrow)
    return Solved(instance=narrow, blind=blind, plan=allocate(blind.seen))


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
