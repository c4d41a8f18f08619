"""Sommelier baseline: each worker picks a model by its own load alone. Pure.

Taken from Argus §5.1 and Proteus §6.1.1: the load is shared evenly, each worker looks at its own
share of it and takes the most accurate model that keeps up, else the fastest; nobody looks at the
cluster. Simplified: workers are divided among applications each period (`division`), where
Proteus' authors place the first models by their program; prompts are shared by that program.
"""

from scheduler.allocation.policies.worker_partition import Share, serve_divided
from scheduler.allocation.problem import Allocation, Instance, Slot


def sommelier(instance: Instance) -> Allocation:
    """Let every worker choose for itself.

    Raises: AllocationError if there is no allocation.
    """
    return serve_divided(instance, _fill)


def _fill(share: Share) -> dict[Slot, int]:
    load = share.demand.rate / max(1, sum(share.workers.values()))
    return {(t, _model(share, t, load)): count for t, count in share.workers.items()}


def _model(share: Share, device_type: str, load: float) -> str:
    """Choose for one worker.

    Args:
        load: jobs/s that it is sent.
    """
    options = share.options(device_type)
    able = [level for level in options if share.rate(level, device_type) >= load]
    if able:
        return max(able, key=lambda level: (share.accuracy(level), level)).model
    return max(options, key=lambda level: (share.rate(level, device_type), level)).model
