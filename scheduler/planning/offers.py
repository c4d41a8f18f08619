"""Which models a plan may give to workers: those that fit, and what is known of their cost. Pure.

A model that nobody has timed costs what it says itself. Whoever names it gets it; jobs that others
can make go to those, so that no plan counts on a guess where it need not.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from core.boards.fleet import Worker
from scheduler.allocation.assign import can_hold, can_load
from scheduler.allocation.problem import Demand, Instance
from scheduler.profile.profile import Profile

Loadable = tuple[str, str]  #: device type, model


def loads_of(workers: Sequence[Worker], profile: Profile) -> dict[Loadable, float]:
    """Say what it takes to load each model where it fits some worker, which can load it."""
    types: dict[str, list[Worker]] = defaultdict(list)
    for worker in workers:
        types[worker.device_type].append(worker)
    return {
        (t, name): profile.load_s(name, t)
        for t, alike in sorted(types.items())
        for name in sorted(profile.models)
        if _is_loadable(name, profile.size_gib(name, t), alike)
    }


def _is_loadable(model: str, size_gib: float, workers: Sequence[Worker]) -> bool:
    return any(
        can_load(worker, model) and worker.needs_gib.get(model, size_gib) <= worker.memory_gib
        for worker in workers
    )


def with_needs(workers: Sequence[Worker], profile: Profile) -> list[Worker]:
    """Note what is too large for a worker that has not looked into it, by others or the model."""
    sizes = {
        t: {name: profile.size_gib(name, t) for name in profile.models}
        for t in {worker.device_type for worker in workers}
    }
    return [_with_needs(worker, sizes[worker.device_type]) for worker in workers]


def _with_needs(worker: Worker, sizes: Mapping[str, float]) -> Worker:
    own, room_gib = worker.needs_gib, worker.memory_gib
    large = {name: gib for name, gib in sizes.items() if gib > room_gib and name not in own}
    return replace(worker, needs_gib={**own, **large}) if large else worker


def able_of(
    workers: Sequence[Worker], loads: Mapping[Loadable, float], settling: Mapping[str, str]
) -> dict[Loadable, int]:
    """Count the workers that may be given a model, where not all of its type can hold it.

    Who can hold none counts for all: each worker is given one.
    """
    devices = Counter(worker.device_type for worker in workers)
    unable = Counter(
        (worker.device_type, name)
        for worker in workers
        if worker.catalogue or worker.refused or worker.needs_gib
        for name in _beyond(worker, loads, settling.get(worker.name))
    )
    return {(t, name): devices[t] - count for (t, name), count in unable.items()}


def _beyond(worker: Worker, loads: Mapping[Loadable, float], kept: str | None) -> list[str]:
    """Name the models that a worker cannot hold, if there is one that it can."""
    offered = [name for t, name in loads if t == worker.device_type]
    beyond = [name for name in offered if name != kept and not can_hold(worker, name)]
    return beyond if len(beyond) < len(offered) else []


def untried_of(workers: Sequence[Worker], profile: Profile) -> set[Loadable]:
    """Find the models that nobody has timed on a type of device: their cost is a guess."""
    return {
        (worker.device_type, name)
        for worker in workers
        for name in worker.untried
        if name in profile.models and not profile.cost(name, worker.device_type).is_measured
    }


def of_known_cost(demand: Demand, untried: Collection[Loadable], instance: Instance) -> Demand:
    """Leave out levels of models whose cost is a guess, where others may make the same images."""
    known = {name for slot in instance.load for name in slot[1:] if slot not in untried}
    levels = {level.name for level in instance.levels_of(demand) if level.model in known}
    if demand.is_exact or not levels or known.issuperset(demand.models):
        return demand
    return replace(demand, levels=frozenset(levels))


def offered(
    workers: Sequence[Worker],
    profile: Profile,
    loads: Mapping[Loadable, float],
    *,
    wanted: Collection[str],
    held: Collection[Loadable],
) -> dict[Loadable, float]:
    """Offer models of known cost; others to whoever asks for them, or where nothing is known.

    What a worker has or is given already may stay.
    """
    untried = untried_of(workers, profile)
    has_known = {t for t, name in loads if (t, name) not in untried}
    return {
        (t, name): seconds
        for (t, name), seconds in loads.items()
        if (t, name) not in untried or name in wanted or (t, name) in held or t not in has_known
    }
