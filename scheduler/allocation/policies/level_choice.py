"""Preselect the levels that a baseline policy considers for each prompt. Pure.

What the policies of the papers have in common: they give up some of the levels before they weigh
the rest. Without a level of its own to choose from, a demand is left as it is.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from core.levels.level import Level
from scheduler.allocation.problem import Demand, Instance, Prices

#: What the papers' programs weigh: who is served, and how well. The rest only breaks ties, and
#: loads cost nothing. What named models cost stays: no accepted job may wait forever.
PAPERS = Prices(loading=1e-6, idle=1e-6)

DELTA = 0.9  #: share of the best quality that the optimal level keeps (Argus §3.2)

Choice = Callable[[Instance, Demand, Sequence[Level]], Iterable[Level]]


def narrowed(instance: Instance, choice: Choice) -> Instance:
    """Leave each demand the levels that a choice takes of those it could be served at."""
    return replace(
        instance,
        demands=tuple(_narrow(instance, demand, choice) for demand in instance.demands),
        prices=PAPERS,
    )


def plain(instance: Instance, demand: Demand, levels: Sequence[Level]) -> list[Level]:
    """Take every model from the first step on: Argus' smaller models (SM), Proteus' variants."""
    return [level for level in levels if level.is_exact]


def most_accurate(instance: Instance, demand: Demand, levels: Sequence[Level]) -> list[Level]:
    """Take the model of the highest quality from the first step on."""
    return [max(plain(instance, demand, levels), key=lambda x: (instance.worth[x.model], x))]


def fastest(instance: Instance, demand: Demand, levels: Sequence[Level]) -> list[Level]:
    """Take the fastest model from the first step on."""
    return [min(plain(instance, demand, levels), key=lambda x: (seconds(instance, x), x))]


def cached(instance: Instance, demand: Demand, levels: Sequence[Level]) -> list[Level]:
    """Take every K of the best model: Argus' approximate caching (AC)."""
    (best,) = most_accurate(instance, demand, levels)
    return [level for level in levels if level.model == best.model]


def cached_optimal(instance: Instance, demand: Demand, levels: Sequence[Level]) -> list[Level]:
    """Take the one K of the best model that is optimal for the class."""
    return [optimal(instance, demand.affinity, cached(instance, demand, levels))]


def optimal(instance: Instance, affinity: str, levels: Sequence[Level]) -> Level:
    """Find the fastest level that keeps `DELTA` of the best quality of a class (Argus §3.2)."""
    best = max(instance.quality[affinity, level.name] for level in levels)
    keeps = [x for x in levels if instance.quality[affinity, x.name] >= DELTA * best]
    return min(keeps, key=lambda level: (seconds(instance, level), level))


def seconds(instance: Instance, level: Level) -> float:
    """Average what one job takes at a level over the workers that could hold its model."""
    fitting = {t: instance.devices[t] for t, model in instance.slots if model == level.model}
    whole = sum(instance.tau[level.name, t] * count for t, count in fitting.items())
    return whole / sum(fitting.values())


def _narrow(instance: Instance, demand: Demand, choice: Choice) -> Demand:
    models = {model for _, model in instance.slots}
    levels = [level for level in instance.levels_of(demand) if level.model in models]
    if not any(level.is_exact for level in levels):
        return demand
    return replace(demand, levels=frozenset(x.name for x in choice(instance, demand, levels)))
