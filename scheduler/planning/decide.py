"""Compute a plan from a snapshot of fleet and demand. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from core.application import DEFAULT, Application
from core.boards.cost import Cost
from core.boards.demand import AskedJob, Stream
from core.boards.fleet import QueueDepth, Worker
from core.boards.plan import PasmRow, Usual
from core.cells.capacity import Segment
from core.levels.level import Level
from core.placement import model_of, queue_of
from scheduler.allocation.assign import assign, holdings
from scheduler.allocation.capacity import curve
from scheduler.allocation.level_limits import limit, limited
from scheduler.allocation.objective import mean_quality, saturation
from scheduler.allocation.pasm import align
from scheduler.allocation.problem import Allocation, Demand, Instance, Prices
from scheduler.allocation.registry import Policy
from scheduler.allocation.situation import Situation
from scheduler.allocation.transition import serving_models, share_now
from scheduler.planning.offers import loads_of, of_known_cost, offered, untried_of
from scheduler.planning.situation import seat_of, waiting_of
from scheduler.profile.profile import Profile
from scheduler.routing.classify import ANY
from scheduler.routing.model_turns import SHORTEST_S, patience_s, seated
from scheduler.routing.route import best_model

DRAIN_S = 60.0  #: what waits on queues counts as demand that arrives over this long
RHO = 0.9  #: target utilisation
LOADS = 3.0  #: a load pays off over so many times as long as it takes, or over a minute
#: Workers up to which the gap is closed: that is cheap, and what a load costs or what an idle
#: worker holds weighs less than the usual gap.
SMALL_FLEET = 16
LARGE_FLEET = 64  #: beyond so many workers the last per cent is not worth the search


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything a decision depends on."""

    workers: Sequence[Worker]
    depths: Sequence[QueueDepth] = ()
    rates: Mapping[Stream, float] = field(default_factory=dict)  #: jobs/s
    #: application -> class -> share H
    affinity: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    previous: Mapping[str, str] = field(default_factory=dict)  #: worker -> model, last plan
    settling: Mapping[str, str] = field(default_factory=dict)  #: worker -> model to be left with
    #: registered ones, by key; beside them there is always the default one
    applications: Mapping[str, Application] = field(default_factory=dict)
    #: model that nobody holds -> seconds for which clients have asked for it in vain
    wanted: Mapping[str, float] = field(default_factory=dict)
    #: model that nobody holds -> seconds since its last worker was given another
    left: Mapping[str, float] = field(default_factory=dict)
    margin: float = 1.0  #: plan for so many times the demand
    given_s: Mapping[str, float] = field(default_factory=dict)  #: worker that loads -> since when
    history: Sequence[float] = ()  #: work of each second of the last hour
    #: application -> its last jobs
    jobs: Mapping[str, tuple[AskedJob, ...]] = field(default_factory=dict)
    usual: Mapping[str, Usual] = field(default_factory=dict)  #: model -> what its jobs are like
    classes: tuple[str, ...] = ("any",)
    tells_capacity: bool = False  #: to routers before several cells


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
    capacity: tuple[Segment, ...] = ()  #: what one more job is worth, by how many there are


def decide(snapshot: Snapshot, profile: Profile, policy: Policy) -> Decision:
    """Allocate the fleet to what is asked of it, and say which worker does what.

    Raises:
        AllocationError: the solver found no plan.
    """
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


def situation(snapshot: Snapshot, profile: Profile) -> Situation:
    """Say what the fleet does now and what lately arrived."""
    types = {worker.device_type for worker in snapshot.workers}
    return Situation(
        seats=tuple(
            seat_of(worker, snapshot.previous.get(worker.name), snapshot.given_s, profile)
            for worker in snapshot.workers
        ),
        history=tuple(snapshot.history),
        jobs=snapshot.jobs,
        waiting=waiting_of(snapshot.workers, snapshot.depths, snapshot.usual),
        costs={(t, name): profile.cost(name, t) for t in types for name in profile.models},
        steps={name: model.default_steps for name, model in profile.models.items()},
        sizes=profile.sizes_gib,
    )


def _promised(instance: Instance, allocation: Allocation) -> float | None:
    """Promise what a rollout expects of the plan, else what its flows would give."""
    if allocation.expected is not None:
        return allocation.expected
    return mean_quality(instance, allocation)


def _horizon_s(loads: Mapping[tuple[str, str], float]) -> float:
    """Say over how long a load pays off."""
    return max(Prices().load_horizon_s, LOADS * max(loads.values(), default=0.0))


def _worth(profile: Profile) -> dict[str, float]:
    """Say how much it is worth that an idle worker holds a model: its quality.

    That of exact jobs comes first, however near the next one is: no other may make them. An
    upscaler is fetched by whoever asks for it.
    """
    names = [name for name, model in profile.models.items() if not model.is_upscaler]
    worth = {name: profile.quality(ANY, Level(model=name)) for name in names}
    best = {best_model(worth, profile.models): 1.0} if worth else {}
    return dict.fromkeys(profile.models, 0.0) | worth | best


def _limit(snapshot: Snapshot, profile: Profile, instance: Instance, unexpected: Demand) -> Demand:
    """Limit prompts that nobody expected to what their application may use."""
    untried = untried_of(snapshot.workers, profile)
    unexpected = of_known_cost(unexpected, untried, instance)
    application = snapshot.applications.get(unexpected.application)
    if application is None:
        return unexpected
    return limit(replace(unexpected, models=application.models), application, instance)


def gap_for(workers: int) -> float:
    """Choose the relative gap to solve a fleet of this size to."""
    if workers <= SMALL_FLEET:
        return 1e-6
    return 1e-3 if workers <= LARGE_FLEET else 1e-2


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


def stranded(snapshot: Snapshot, profile: Profile) -> frozenset[str]:
    """Find models without a worker whose turn it is: jobs or clients have waited too long.

    They are as many as can have a worker at once, of those that need not be left alone, and come
    in the order in which they have waited: since the first job, or since they last had a worker.
    A worker that has nothing to do is not waited for. A model that loads fast is brought back
    soon: so few workers take turns among more models, and most of their time goes to making images.
    """
    waited = dict(snapshot.wanted)
    for depth in snapshot.depths:
        model = model_of(depth.queue)
        if depth.waiting:
            oldest_s = min(depth.oldest_s, snapshot.left.get(model, depth.oldest_s))
            waited[model] = max(oldest_s, waited.get(model, oldest_s))
    if not (homeless := waited.keys() - set(snapshot.previous.values())):
        return frozenset()
    loads, free = loads_of(snapshot.workers, profile), _free(snapshot)
    able = {
        model: [worker.name for worker in free if (worker.device_type, model) in loads]
        for model in homeless
    }
    idle = {worker.name for worker in free if _is_idle(worker, snapshot)}
    due = [
        model
        for model, names in able.items()
        if names and waited[model] > _due_s(model, loads, snapshot, bool(idle & set(names)))
    ]
    return seated(sorted(due, key=lambda model: (-waited[model], model)), able)


def _free(snapshot: Snapshot) -> list[Worker]:
    return [worker for worker in snapshot.workers if worker.name not in snapshot.settling]


def _is_idle(worker: Worker, snapshot: Snapshot) -> bool:
    """Tell whether a worker holds its model and neither makes an image nor is waited for."""
    own = snapshot.previous.get(worker.name)
    queue = queue_of(own or "")
    is_waited_for = any(depth.waiting and depth.queue == queue for depth in snapshot.depths)
    return own in worker.models and not (worker.running or worker.waiting or is_waited_for)


def _due_s(
    model: str, loads: Mapping[tuple[str, str], float], snapshot: Snapshot, is_anyone_idle: bool
) -> float:
    """Say how long a model waits for a worker; jobs it has just left may move to another queue."""
    if is_anyone_idle:
        has_just_left = model in snapshot.left and model not in snapshot.wanted
        return SHORTEST_S if has_just_left else -1.0
    return patience_s(min(seconds for (_, name), seconds in loads.items() if name == model))


def _by_type(loads: Mapping[tuple[str, str], float]) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for (t, model), seconds in sorted(loads.items()):
        rows.setdefault(t, {})[model] = seconds
    return rows


def _held(snapshot: Snapshot) -> Counter[tuple[str, str]]:
    return Counter(
        (worker.device_type, model)
        for worker in snapshot.workers
        for model in holdings(worker, snapshot.previous)
    )


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
