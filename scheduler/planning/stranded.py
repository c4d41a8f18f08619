"""Find models that have waited for a worker for too long. Pure."""

from collections.abc import Mapping

from core.boards.fleet import Worker
from core.placement import model_of, queue_of
from scheduler.allocation.assign import can_hold
from scheduler.planning.offers import loads_of
from scheduler.planning.snapshot import Snapshot
from scheduler.profile.profile import Profile
from scheduler.routing.model_turns import SHORTEST_S, patience_s, seated


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
        model: [w.name for w in free if (w.device_type, model) in loads and can_hold(w, model)]
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
