"""Restrict levels to those that keep an application's quality floor and SLO. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from core.application import Application
from core.levels.level import Level
from scheduler.allocation.problem import Demand, Instance


def limited(instance: Instance, applications: Mapping[str, Application]) -> Instance:
    """Limit every demand of a registered application that the plan may still choose levels for."""
    return replace(
        instance,
        demands=tuple(
            limit(d, applications.get(d.application), instance) for d in instance.demands
        ),
    )


def limit(demand: Demand, application: Application | None, instance: Instance) -> Demand:
    """Leave a demand the levels whose quality for its class and whose time keep the promise.

    Quality goes first: what lies below the floor is never used, and if everything does the best
    level is. Of the rest those that take longer than the SLO on every device type are not used
    either; if all do the fastest is. `too_slow` then names the device types that are too slow
    where others are not.
    """
    levels = instance.levels_of(demand)
    if application is None or demand.is_exact or not levels:
        return demand
    good = _good(levels, demand.affinity, application.quality_floor, instance)
    if application.slo_s is None:
        return replace(demand, levels=_names(good))
    in_time = _in_time(good, application.slo_s, instance)
    return replace(
        demand, levels=_names(in_time), too_slow=_too_slow(in_time, application.slo_s, instance)
    )


def _good(
    levels: Sequence[Level], affinity: str, floor: float, instance: Instance
) -> Sequence[Level]:
    keeps = [x for x in levels if instance.quality[affinity, x.name] >= floor]
    return keeps or [max(levels, key=lambda x: (instance.quality[affinity, x.name], x))]


def _in_time(levels: Sequence[Level], slo_s: float, instance: Instance) -> Sequence[Level]:
    seconds = {level: min(_times(level, instance).values(), default=0.0) for level in levels}
    keeps = [level for level in levels if seconds[level] <= slo_s]
    return keeps or [min(levels, key=lambda level: (seconds[level], level))]


def _too_slow(
    levels: Sequence[Level], slo_s: float, instance: Instance
) -> frozenset[tuple[str, str]]:
    slow: set[tuple[str, str]] = set()
    for level in levels:
        times = _times(level, instance)
        if min(times.values(), default=0.0) <= slo_s:
            slow |= {(level.name, t) for t, seconds in times.items() if seconds > slo_s}
    return frozenset(slow)


def _times(level: Level, instance: Instance) -> dict[str, float]:
    """Seconds of one job on each device type of the fleet whose workers could hold the model."""
    types = [t for t, model in instance.slots if model == level.model]
    return {t: instance.tau[level.name, t] for t in types}


def _names(levels: Sequence[Level]) -> frozenset[str]:
    return frozenset(level.name for level in levels)
