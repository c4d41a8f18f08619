"""Share prompts among the workers that serve while others still load. Pure.

A plan says what workers shall hold. Until the last of them has loaded, rows solved for that would
send prompts to models that nobody holds, and what is cut from them would crowd the others; so the
rows are solved for the workers as they are, and again whenever a load ends.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from core.boards.fleet import Worker
from core.errors import AllocationError
from scheduler.allocation.problem import Allocation, Instance, Slot
from scheduler.allocation.program import Program

SHARE_S = 1.0  #: limit of a linear program that takes milliseconds


def serving_models(
    workers: Sequence[Worker], assignments: Mapping[str, str], sizes: Mapping[str, float]
) -> dict[str, str]:
    """Say which model each worker serves from now on, until it has loaded what it is given.

    One that has room for both serves the old one meanwhile; one that has not serves nobody.

    Args:
        sizes: model -> GiB of its weights.
    """
    serving: dict[str, str] = {}
    for worker in workers:
        target = assignments.get(worker.name)
        if target is None or target in worker.models:
            kept = target or next(iter(worker.models), None)
        else:
            kept = worker.models[-1] if has_room(worker, target, sizes) else None
        if kept is not None:
            serving[worker.name] = kept
    return serving


def has_room(worker: Worker, target: str, sizes: Mapping[str, float]) -> bool:
    """Tell whether a worker can serve what it holds while it loads another model."""
    if not worker.models:
        return False
    models, own = {*worker.models, target}, worker.needs_gib
    needed = sum(own.get(model, sizes.get(model, 0.0)) for model in models)
    return needed <= worker.memory_gib


def share_now(
    instance: Instance,
    allocation: Allocation,
    workers: Sequence[Worker],
    serving: Mapping[str, str],
) -> Allocation:
    """Solve the flows of an allocation again, for the workers that serve now.

    Where nobody serves yet, or flows are not those of the program, it stays as it is.
    """
    now = Counter((w.device_type, serving[w.name]) for w in workers if w.name in serving)
    counts = {slot: now[slot] for slot in instance.slots if now[slot]}
    if not counts or not allocation.is_joint or counts == _positive(allocation.counts):
        return allocation
    try:
        found = serve(instance, counts)
    except AllocationError:
        return allocation
    return replace(allocation, flows=found.flows, unserved=found.unserved, serving=found.counts)


def serve(instance: Instance, counts: Mapping[Slot, int]) -> Allocation:
    """Share the prompts among workers whose models are given.

    Raises: AllocationError if the solver fails.
    """
    devices: Counter[str] = Counter()
    for (device_type, _), count in counts.items():
        devices[device_type] += count
    within = {slot: (counts.get(slot, 0), counts.get(slot, 0)) for slot in instance.slots}
    given = replace(instance, devices=devices, settling={})
    found = Program(given, within=within).solve(limit_s=SHARE_S)
    return replace(found, objective=None, bound=None, is_joint=True)


def _positive(counts: Mapping[Slot, int]) -> dict[Slot, int]:
    return {slot: count for slot, count in counts.items() if count}
