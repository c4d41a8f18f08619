"""Expected quality, saturation and objective value of an allocation. Pure."""

from scheduler.allocation.problem import Allocation, Instance


def mean_quality(instance: Instance, allocation: Allocation) -> float | None:
    """Expect the mean quality of what is served, in [0, 1]; None if nothing is."""
    served = sum(flow.rate for flow in allocation.flows)
    return _gained(instance, allocation) / served if served > 0 else None


def saturation(instance: Instance, allocation: Allocation) -> float:
    """Expect the share of the demand that nobody serves, in [0, 1]."""
    whole = sum(demand.rate for demand in instance.demands)
    return min(1.0, sum(allocation.unserved) / whole) if whole > 0 else 0.0


def value(instance: Instance, allocation: Allocation) -> float:
    """Price what policies compete for: quality per prompt asked for, less what is unserved.

    What an allocation costs beside that (loads, models that are at hand) is left out.
    """
    whole = sum(demand.rate for demand in instance.demands)
    if whole <= 0:
        return 0.0
    lost = instance.prices.unserved * sum(allocation.unserved)
    return (_gained(instance, allocation) - lost) / whole


def _gained(instance: Instance, allocation: Allocation) -> float:
    return sum(
        flow.rate * instance.quality[instance.demands[flow.demand].affinity, flow.level]
        for flow in allocation.flows
    )
