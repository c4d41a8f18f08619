"""Compute a plan from a snapshot of fleet and demand. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from core.application import DEFAULT
from core.boards.cost import Cost
from core.boards.plan import PasmRow
from core.cells.capacity import Segment
from scheduler.allocation.assign import assign
from scheduler.allocation.capacity import curve
from scheduler.allocation.level_limits import limit
from scheduler.allocation.objective import mean_quality, saturation
from scheduler.allocation.pasm import align
from scheduler.allocation.problem import Allocation, Demand, Instance
from scheduler.allocation.registry import Policy
from scheduler.allocation.transition import serving_models, share_now
from scheduler.planning.offers import loads_of, of_known_cost, untried_of, with_needs
from scheduler.planning.pose import pose
from scheduler.planning.snapshot import Snapshot
from scheduler.planning.worker_stats import slowness
from scheduler.profile.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A plan without its number, its fence and its date."""

    assignments: Mapping[str, str]  #: worker -> model
    pasm: tuple[PasmRow, ...]
    demand: Mapping[str, float]  #: application -> jobs/s
    affinity: Mapping[str, float]  #: class -> share over all applications
    levels: Mapping[str, float]  #: level -> jobs/s
    usable: tuple[str, ...]  #: levels that jobs may be made at now
    reason: str  #: why the fleet is divided so
    resident: tuple[str, ...]  #: models that workers serve from now on, until others have loaded
    saturation: float  #: unserved share of the demand
    quality: float | None  #: mean over what is served; None if nothing is
    costs: Mapping[str, Mapping[str, Cost]]  #: device type -> model -> what an image takes
    loads: Mapping[str, Mapping[str, float]]  #: device type -> model that fits -> seconds to load
    slowness: Mapping[str, float]  #: device type -> its steps, of what the profile says
    capacity: tuple[Segment, ...] = ()  #: what one more job is worth, by how many there are


def decide(snapshot: Snapshot, profile: Profile, policy: Policy) -> Decision:
    """Allocate the fleet to what is asked of it, and say which worker does what.

    Raises:
        AllocationError: the solver found no plan.
    """
    snapshot = replace(snapshot, workers=with_needs(snapshot.workers, profile))
    instance = pose(snapshot, profile)
    target = policy(instance)
    assignments = assign(
        target.counts, snapshot.workers, previous=snapshot.previous, settling=snapshot.settling
    )
    sizes = profile.sizes_gib
    serving = serving_models(snapshot.workers, assignments, sizes)
    allocation = share_now(instance, target, snapshot.workers, serving)
    return Decision(
        assignments=assignments,
        pasm=align(
            instance,
            allocation,
            (DEFAULT, *snapshot.applications),
            snapshot.classes,
            limit=partial(_limit, snapshot, profile, instance),
        ),
        demand=_demand_by_application(snapshot),
        affinity=_affinity(instance),
        levels=allocation.levels,
        usable=tuple(level.name for level in instance.levels),
        reason=allocation.reason,
        resident=tuple(sorted(set(serving.values()))),
        saturation=saturation(instance, allocation),
        quality=_promised(instance, allocation),
        costs={
            t: {name: profile.cost(name, t) for name in profile.models} for t in instance.devices
        },
        slowness=slowness(snapshot.workers),
        loads=_by_type(loads_of(snapshot.workers, profile)),
        capacity=_capacity(snapshot, profile, instance, target) if snapshot.tells_capacity else (),
    )


def _capacity(
    snapshot: Snapshot, profile: Profile, instance: Instance, target: Allocation
) -> tuple[Segment, ...]:
    """Tell what one more job is worth; while nobody asks, one of those that usually come."""
    makers = tuple(sorted(m for m, model in profile.models.items() if not model.is_upscaler))
    usual = tuple(
        Demand(application=DEFAULT, affinity=affinity, models=makers, rate=share)
        for affinity, share in sorted(profile.prior(snapshot.classes).items())
    )
    return curve(instance, target.counts, usual)


def _promised(instance: Instance, allocation: Allocation) -> float | None:
    """Promise what a rollout expects of the plan, else what its flows would give."""
    if allocation.expected is not None:
        return allocation.expected
    return mean_quality(instance, allocation)


def _limit(snapshot: Snapshot, profile: Profile, instance: Instance, unexpected: Demand) -> Demand:
    """Limit prompts that nobody expected to what their application may use."""
    untried = untried_of(snapshot.workers, profile)
    unexpected = of_known_cost(unexpected, untried, instance)
    application = snapshot.applications.get(unexpected.application)
    if application is None:
        return unexpected
    return limit(replace(unexpected, models=application.models), application, instance)


def _by_type(loads: Mapping[tuple[str, str], float]) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for (t, model), seconds in sorted(loads.items()):
        rows.setdefault(t, {})[model] = seconds
    return rows


def _demand_by_application(snapshot: Snapshot) -> dict[str, float]:
    totals = dict.fromkeys((DEFAULT, *snapshot.applications), 0.0)
    for stream, rate in snapshot.rates.items():
        totals[stream.application] = totals.get(stream.application, 0.0) + rate
    return totals


def _affinity(instance: Instance) -> dict[str, float]:
    totals: dict[str, float] = {}
    for demand in instance.demands:
        if not demand.is_placed:
            totals[demand.affinity] = totals.get(demand.affinity, 0.0) + demand.rate
    whole = sum(totals.values())
    return {name: rate / whole for name, rate in totals.items()}
