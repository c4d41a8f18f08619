"""Pose a snapshot as a problem of allocation: what is asked for, what the fleet can do. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from core.application import DEFAULT
from core.levels.level import Level
from core.placement import queue_of
from scheduler.allocation.assign import holdings
from scheduler.allocation.level_limits import limited
from scheduler.allocation.problem import Demand, Instance, Prices
from scheduler.planning.offers import able_of, loads_of, of_known_cost, offered, untried_of
from scheduler.planning.situation import situation
from scheduler.planning.snapshot import Snapshot
from scheduler.planning.stranded import stranded
from scheduler.profile.profile import Profile
from scheduler.routing.classify import ANY
from scheduler.routing.route import best_model

DRAIN_S = 60.0  #: what waits on queues counts as demand that arrives over this long
RHO = 0.9  #: target utilisation
LOADS = 3.0  #: a load pays off over so many times as long as it takes, or over a minute
#: Workers up to which the gap is closed: that is cheap, and what a load costs or what an idle
#: worker holds weighs less than the usual gap.
SMALL_FLEET = 16
LARGE_FLEET = 64  #: beyond so many workers the last per cent is not worth the search


def pose(snapshot: Snapshot, profile: Profile) -> Instance:
    """Put a snapshot into the terms of the allocation."""
    devices = Counter(worker.device_type for worker in snapshot.workers)
    levels = profile.levels
    loads, due = loads_of(snapshot.workers, profile), stranded(snapshot, profile)
    demands = (*_arriving(snapshot, profile), *_waiting(snapshot, profile))
    classes = {*snapshot.classes, *(demand.affinity for demand in demands)}
    held = _held(snapshot)
    named = {demand.models[0] for demand in demands if len(demand.models) == 1}
    loads = offered(snapshot.workers, profile, loads, wanted=named | due, held=held)
    instance = Instance(
        devices=devices,
        levels=levels,
        demands=demands,
        tau={(x.name, t): profile.tau_s(x, t) for x in levels for t in devices},
        quality={(c, x.name): profile.quality(c, x) for c in classes for x in levels},
        worth=_worth(profile),
        load=loads,
        able=able_of(snapshot.workers, loads, snapshot.settling),
        held=held,
        empty=Counter(
            worker.device_type
            for worker in snapshot.workers
            if not holdings(worker, snapshot.previous)
        ),
        settling=Counter(
            (worker.device_type, snapshot.settling[worker.name])
            for worker in snapshot.workers
            if worker.name in snapshot.settling
        ),
        stranded=due,
        situation=situation(snapshot, profile),
        prices=Prices(load_horizon_s=_horizon_s(loads)),
        rho=RHO / snapshot.margin,
        gap=gap_for(len(snapshot.workers)),
    )
    untried = untried_of(snapshot.workers, profile)
    demands = tuple(of_known_cost(demand, untried, instance) for demand in instance.demands)
    return limited(replace(instance, demands=demands), snapshot.applications)


def _arriving(snapshot: Snapshot, profile: Profile) -> list[Demand]:
    default = profile.prior(snapshot.classes)
    return [
        Demand(
            application=stream.application,
            affinity=affinity,
            models=stream.models,
            is_exact=stream.is_exact,
            is_full=stream.is_full,
            rate=rate * share,
        )
        for stream, rate in sorted(snapshot.rates.items())
        for affinity, share in sorted(
            (snapshot.affinity.get(stream.application) or default).items()
        )
        if rate * share > 0
    ]


def _waiting(snapshot: Snapshot, profile: Profile) -> list[Demand]:
    """Jobs on queues are placed already: they need their model, and no PASM row."""
    waiting = {depth.queue: depth.waiting for depth in snapshot.depths}
    return [
        Demand(
            application=DEFAULT,
            affinity=ANY,
            models=(model,),
            is_exact=True,
            is_placed=True,
            rate=waiting[queue_of(model)] / DRAIN_S,
        )
        for model in sorted(profile.models)
        if waiting.get(queue_of(model))
    ]


def _worth(profile: Profile) -> dict[str, float]:
    """Say how much it is worth that an idle worker holds a model: its quality.

    That of exact jobs comes first, however near the next one is: no other may make them. An
    upscaler is fetched by whoever asks for it.
    """
    names = [name for name, model in profile.models.items() if not model.is_upscaler]
    worth = {name: profile.quality(ANY, Level(model=name)) for name in names}
    best = {best_model(worth, profile.models): 1.0} if worth else {}
    return dict.fromkeys(profile.models, 0.0) | worth | best


def _horizon_s(loads: Mapping[tuple[str, str], float]) -> float:
    """Say over how long a load pays off."""
    return max(Prices().load_horizon_s, LOADS * max(loads.values(), default=0.0))


def _held(snapshot: Snapshot) -> Counter[tuple[str, str]]:
    return Counter(
        (worker.device_type, model)
        for worker in snapshot.workers
        for model in holdings(worker, snapshot.previous)
    )


def gap_for(workers: int) -> float:
    """Choose the relative gap to solve a fleet of this size to."""
    if workers <= SMALL_FLEET:
        return 1e-6
    return 1e-3 if workers <= LARGE_FLEET else 1e-2
