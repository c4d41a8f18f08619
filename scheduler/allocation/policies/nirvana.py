"""NIRVANA baseline: the best model everywhere, K by the prompt alone. Pure.

Taken from Argus §5.1: one deployment of the largest model with approximate caching, replicated
on each worker, with the load shared evenly; each prompt gets the K that is optimal for it,
however many wait. Simplified: K comes from the affinity class. Where several applications have
best models of their own, the program divides the workers among them.
"""

from collections.abc import Mapping

from core.levels.level import Level
from scheduler.allocation.allocate import allocate
from scheduler.allocation.policies.level_choice import cached_optimal, narrowed
from scheduler.allocation.problem import Allocation, Flow, Instance, Slot


def nirvana(instance: Instance) -> Allocation:
    """Serve every prompt at its optimal K of the best model, and nobody at any other.

    Raises: AllocationError if there is no allocation.
    """
    narrow = narrowed(instance, cached_optimal)
    counts = allocate(narrow).counts
    shares = _served_shares(narrow, counts)
    flows = [
        Flow(
            demand=i,
            level=level.name,
            device_type=t,
            rate=demand.rate * shares[level.model] * speed / sum(speeds.values()),
        )
        for i, demand in enumerate(narrow.demands)
        if demand.rate > 0
        for level in narrow.levels_of(demand)
        if (speeds := _speeds(narrow, counts, level))
        for t, speed in speeds.items()
    ]
    unserved = [demand.rate for demand in narrow.demands]
    for flow in flows:
        unserved[flow.demand] = max(0.0, unserved[flow.demand] - flow.rate)
    return Allocation(counts=counts, flows=tuple(flows), unserved=tuple(unserved))


def _speeds(instance: Instance, counts: Mapping[Slot, int], level: Level) -> dict[str, float]:
    """Say how many jobs/s the workers of each type end at a level that is all they do.

    Prompts that are shared in this proportion keep all of them equally busy.
    """
    return {
        t: count / instance.tau[level.name, t]
        for (t, model), count in counts.items()
        if model == level.model and count
    }


def _served_shares(instance: Instance, counts: Mapping[Slot, int]) -> dict[str, float]:
    """Say which share of its prompts each model has time for."""
    busy = dict.fromkeys(instance.worth, 0.0)
    for demand in instance.demands:
        for level in instance.levels_of(demand):
            if speeds := _speeds(instance, counts, level):
                busy[level.model] += demand.rate / sum(speeds.values())
    return {m: min(1.0, instance.rho / used) if used else 1.0 for m, used in busy.items()}
