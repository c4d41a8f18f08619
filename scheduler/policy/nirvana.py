"""How would NIRVANA divide the fleet? The best model everywhere, K by the prompt alone. Pure.

Taken from Argus §5.1: one deployment of the largest model with approximate caching, replicated
on each worker, with the load shared evenly; each prompt gets the K that is optimal for it,
however many wait. Simplified: K comes from the affinity class. Where several applications have
best models of their own, the program divides the workers among them.
"""

from collections.abc import Mapping

from scheduler.allocate import allocate
from scheduler.instance import Allocation, Flow, Instance, Slot
from scheduler.policy.choice import cached_optimal, narrowed


def nirvana(instance: Instance) -> Allocation:
    """Serve every prompt at its optimal K of the best model, and nobody at any other.

    Raises: AllocationError if there is no allocation.
    """
    narrow = narrowed(instance, cached_optimal)
    counts = allocate(narrow).counts
    served = _served_shares(narrow, counts)
    flows = [
        Flow(demand=i, level=level.name, device_type=t, rate=served[level.model] * rate * share)
        for i, demand in enumerate(narrow.demands)
        for level in narrow.levels_of(demand)
        if (rate := demand.rate) > 0
        for t, share in _even(narrow, counts, level.name, level.model).items()
    ]
    unserved = [demand.rate for demand in narrow.demands]
    for flow in flows:
        unserved[flow.demand] = max(0.0, unserved[flow.demand] - flow.rate)
    return Allocation(counts=counts, flows=tuple(flows), unserved=tuple(unserved))


def _even(
    instance: Instance, counts: Mapping[Slot, int], level: str, model: str
) -> dict[str, float]:
    """Share a level's prompts among device types so that all workers are equally busy."""
    speed = {
        t: count / instance.tau[level, t]
        for (t, m), count in counts.items()
        if m == model and count
    }
    return {t: each / sum(speed.values()) for t, each in speed.items()}


def _served_shares(instance: Instance, counts: Mapping[Slot, int]) -> dict[str, float]:
    """Say which share of its prompts each model has time for."""
    wanted = dict.fromkeys(instance.worth, 0.0)  # seconds per second of one of its workers
    for demand in instance.demands:
        for level in instance.levels_of(demand):
            for t, share in _even(instance, counts, level.name, level.model).items():
                busy = demand.rate * share * instance.tau[level.name, t]
                wanted[level.model] += busy / sum(
                    n for (_, m), n in counts.items() if m == level.model
                )
    return {m: min(1.0, instance.rho / busy) if busy else 1.0 for m, busy in wanted.items()}
