"""Compute the PASM: for each prompt class, its share of every level. Pure.

The PASM (prompt-agnostic to prompt-specific map, Argus §4.3) is read off the flows of the
allocation: the row of a class is its flow, normalised over levels. So rows sum to one and the
loads they cause equal the plan's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from core.boards.plan import PasmRow
from core.levels.level import Level
from scheduler.allocation.problem import Allocation, Demand, Instance

ROOM = 1e-6  #: seconds per second of a worker below which a model has no room left


def align(
    instance: Instance,
    allocation: Allocation,
    applications: Sequence[str],
    classes: Sequence[str],
    *,
    limit: Callable[[Demand], Demand] = lambda demand: demand,
) -> tuple[PasmRow, ...]:
    """Give a row to every demand, and to every class of every application without any.

    A row without `models` is for prompts that arrive though nobody expected them. There is no
    row where no worker holds a model that may serve it.

    Args:
        limit: leaves such prompts the levels that their application may use.
    """
    flows = _flows_by_demand(allocation)
    rows = [
        _row(d, d.models, flows.get(i) or _sane(instance, allocation, d))
        for i, d in enumerate(instance.demands)
        if not d.is_exact and not d.is_placed
    ]
    everything = tuple(sorted({level.model for level in instance.levels}))
    for application in applications:
        for affinity in classes:
            unexpected = Demand(
                application=application, affinity=affinity, models=everything, rate=0.0
            )
            rows.append(_row(unexpected, (), _sane(instance, allocation, limit(unexpected))))
    return tuple(row for row in rows if row.shares)


def _row(demand: Demand, models: tuple[str, ...], weights: Mapping[str, float]) -> PasmRow:
    total = sum(weights.values())
    return PasmRow(
        application=demand.application,
        affinity=demand.affinity,
        models=models,
        is_full=demand.is_full,
        shares={level: weight / total for level, weight in weights.items()},
    )


def _flows_by_demand(allocation: Allocation) -> dict[int, dict[str, float]]:
    flows: dict[int, dict[str, float]] = {}
    for flow in allocation.flows:
        levels = flows.setdefault(flow.demand, {})
        levels[flow.level] = levels.get(flow.level, 0.0) + flow.rate
    return flows


def _sane(instance: Instance, allocation: Allocation, demand: Demand) -> dict[str, float]:
    """Weigh levels for prompts that the allocation has no flow for.

    The best level that has room; if none has, the levels as the plan uses them; if it uses none
    of these, the best one.
    """
    able = _able(instance, allocation, demand)
    if not able:
        return {}
    room = _room(instance, allocation)
    free = [level for level in able if room[level.model] > ROOM]
    loads = allocation.levels
    used = {level.name: loads[level.name] for level in able if level.name in loads}
    if used and not free:
        return used
    best = max(free or able, key=lambda level: _worth(instance, demand.affinity, level))
    return {best.name: 1.0}


def _able(instance: Instance, allocation: Allocation, demand: Demand) -> Sequence[Level]:
    """List the levels that could serve a demand now; one it may not use is better than none."""
    for each in (demand, replace(demand, levels=None)):
        if held := [x for x in instance.levels_of(each) if x.model in allocation.models]:
            return held
    return ()


def _worth(instance: Instance, affinity: str, level: Level) -> tuple[float, float, str]:
    quality = instance.quality[affinity, level.name]
    return (quality, level.approximation.share_of_steps, level.model)


def _room(instance: Instance, allocation: Allocation) -> dict[str, float]:
    """Worker-seconds per second that each model has left."""
    room: dict[str, float] = {}
    for (_, model), count in allocation.served_by.items():
        room[model] = room.get(model, 0.0) + instance.rho * count
    model_of = {level.name: level.model for level in instance.levels}
    for flow in allocation.flows:
        room[model_of[flow.level]] -= instance.tau[flow.level, flow.device_type] * flow.rate
    return room
