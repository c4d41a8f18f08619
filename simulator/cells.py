"""Divide a large world into cells with a scheduler each, and simulate them in processes.

Every cell has its part of each type of worker and every so many-th request, as behind a balancer
that takes turns. Several processes share the work; each outcome is added to the whole.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import repeat
from multiprocessing import get_context
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from simulator.outcome import PolicyOutcome, Series
from simulator.run import simulate
from simulator.world import Outage, World

Kind = TypeVar("Kind", bound=np.generic)
Floats = NDArray[np.float64]


def simulate_cells(world: World, policy: str, cells: int, processes: int) -> PolicyOutcome:
    """Simulate a policy in each cell, and add up what became of all jobs.

    Raises:
        ConfigurationError: the policy or the workload cannot be simulated.
    """
    parts = divided(world, cells)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return joined(world, list(pool.map(simulate, parts, repeat(policy))))


def divided(world: World, cells: int) -> list[World]:
    """Deal workers and requests out, one after the other."""
    return [
        replace(
            world,
            fleet=_dealt(world.fleet, cell, cells),
            workload=world.workload[cell::cells],
            outages=tuple(_part(outage, cell, cells) for outage in world.outages),
            seed=world.seed + cell,
        )
        for cell in range(cells)
    ]


def joined(world: World, outcomes: Sequence[PolicyOutcome]) -> PolicyOutcome:
    """Put the jobs of all cells in their order again, and add up the rest."""
    first, kinds = outcomes[0], world.fleet
    return PolicyOutcome(
        policy=first.policy,
        seed=world.seed,
        levels=first.levels,
        models=first.models,
        at_s=world.workload.at_s,
        slo_s=_dealt_back([each.slo_s for each in outcomes]),
        ended_s=_dealt_back([each.ended_s for each in outcomes]),
        level=_dealt_back([each.level for each in outcomes]),
        quality=_dealt_back([each.quality for each in outcomes]),
        was_refused=_dealt_back([each.was_refused for each in outcomes]),
        was_canceled=_dealt_back([each.was_canceled for each in outcomes]),
        loads=sum(each.loads for each in outcomes),
        up_s={kind: sum(each.up_s.get(kind, 0.0) for each in outcomes) for kind in kinds},
        busy_s={kind: sum(each.busy_s.get(kind, 0.0) for each in outcomes) for kind in kinds},
        plans=tuple(sorted((p for o in outcomes for p in o.plans), key=lambda plan: plan.at_s)),
        series=_added([outcome.series for outcome in outcomes]),
    )


def _dealt_back(columns: Sequence[NDArray[Kind]]) -> NDArray[Kind]:
    """Put the jobs of all cells in their order again."""
    whole = np.empty(sum(map(len, columns)), columns[0].dtype)
    for cell, column in enumerate(columns):
        whole[cell :: len(columns)] = column
    return whole


def _dealt(fleet: Mapping[str, int], cell: int, cells: int) -> dict[str, int]:
    parts = {kind: (count + cells - 1 - cell) // cells for kind, count in fleet.items()}
    return {kind: count for kind, count in parts.items() if count}


def _part(outage: Outage, cell: int, cells: int) -> Outage:
    return replace(outage, workers=(outage.workers + cells - 1 - cell) // cells)


def _added(series: Sequence[Series]) -> Series:
    """Add stretches up; a cell whose last request comes earlier adds nothing to the last ones."""
    count = max(len(each.demand) for each in series)

    def column(of: Series, name: str) -> Floats:
        found = np.nan_to_num(np.asarray(getattr(of, name), np.float64))
        return np.pad(found, [(0, count - len(found)), *[(0, 0)] * (found.ndim - 1)])

    def total(name: str, weight: str | None = None) -> Floats:
        rows = [column(s, name) * (1.0 if weight is None else column(s, weight)) for s in series]
        return np.asarray(np.sum(rows, axis=0), np.float64)

    with np.errstate(invalid="ignore", divide="ignore"):
        return Series(
            stretch_s=series[0].stretch_s,
            demand=total("demand").astype(np.int64),
            done=total("done").astype(np.int64),
            late=total("late").astype(np.int64),
            quality=total("quality", "done") / total("done"),
            goodput=total("goodput", "demand") / total("demand"),
            levels=total("levels").astype(np.int64),
            loading=total("loading"),
            holding=total("holding"),
            busy=total("busy") / len(series),
        )
