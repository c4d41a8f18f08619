"""Read from reports what each worker does and what waits. Pure."""

from collections.abc import Mapping, Sequence

from core.boards.fleet import QueueDepth, Worker
from core.boards.plan import Usual
from core.placement import model_of
from scheduler.allocation.assign import planned
from scheduler.allocation.situation import Seat, Situation, WaitingImages
from scheduler.demand.demand import TELLING, TELLING_S
from scheduler.planning.snapshot import Snapshot
from scheduler.profile.profile import Profile

SOON_S = 0.1  #: a load that took as long as it should have ends so soon


def situation(snapshot: Snapshot, profile: Profile) -> Situation:
    """Say what the fleet does now and what lately arrived."""
    types = {worker.device_type for worker in snapshot.workers}
    asked = sum(map(len, snapshot.jobs.values()))
    return Situation(
        seats=tuple(
            seat_of(worker, planned(worker, snapshot.previous), snapshot.given_s, profile)
            for worker in snapshot.workers
        ),
        history=tuple(snapshot.history),
        is_telling=len(snapshot.history) >= TELLING_S or asked >= TELLING,
        jobs=snapshot.jobs,
        waiting=waiting_of(snapshot.workers, snapshot.depths, snapshot.usual),
        costs={(t, name): profile.cost(name, t) for t in types for name in profile.models},
        steps={name: model.default_steps for name, model in profile.models.items()},
        sizes=profile.sizes_gib,
    )


def seat_of(
    worker: Worker, given: str | None, given_s: Mapping[str, float], profile: Profile
) -> Seat:
    """Say what a worker serves, what it was given, and how busy it is.

    Args:
        given: model of the last plan; None: there is none, or the worker cannot have it.
        given_s: worker -> seconds since it was given a model that it did not hold.
    """
    serves = given if given in worker.models else next(iter(worker.models), None)
    ready_s = 0.0
    if given is not None and given not in worker.models and given in profile.models:
        load_s = profile.load_s(given, worker.device_type)
        if worker.loading is not None and worker.loading.is_loading(given):
            ready_s = worker.loading.rest_s(load_s)
        else:
            ready_s = load_s - given_s.get(worker.name, 0.0)
        ready_s = max(SOON_S, ready_s)
    return Seat(
        device_type=worker.device_type,
        serves=serves,
        given=given,
        ready_s=ready_s,
        holds=frozenset(worker.models),
        memory_gib=worker.memory_gib,
        running=worker.running,
        sharing=max(1, min(worker.max_slots, worker.most_sharing or worker.max_slots)),
        slots=worker.max_slots,
    )


def waiting_of(
    workers: Sequence[Worker], depths: Sequence[QueueDepth], usual: Mapping[str, Usual]
) -> dict[str, WaitingImages]:
    """Count the images that wait for each model: on its queue, or claimed by a worker of it."""
    claimed: dict[str, float] = {}
    for worker in workers:
        if worker.models and worker.waiting:
            model = worker.models[0]
            claimed[model] = claimed.get(model, 0.0) + worker.waiting
    queued = {model_of(depth.queue): depth for depth in depths if depth.waiting}
    found: dict[str, WaitingImages] = {}
    for model in sorted(claimed.keys() | queued.keys()):
        depth, known = queued.get(model), usual.get(model)
        images = known.images if known is not None else 1.0
        found[model] = WaitingImages(
            images=claimed.get(model, 0.0) + (depth.waiting * images if depth else 0.0),
            oldest_s=depth.oldest_s if depth else 0.0,
            steps=known.steps if known is not None else None,
        )
    return found
