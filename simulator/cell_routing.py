"""Divide the requests of tenants among cells as the router does, while one cell may be lost. Pure.

Time goes in seconds, as routers look: in each the plan over cells is made of what came lately. A
request that would go to a cell that is lost goes to the next of its tenant's cells, at once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from core.cells.capacity import CellCapacity
from router.choosing import MEMORY_S
from router.plan import Shares, plan_shares
from router.rendezvous import ranked
from simulator.world import Outage

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

LOOK_S = 1.0  #: between two plans over cells


@dataclass(frozen=True, slots=True, kw_only=True)
class CellWorld:
    """Cells, and whose requests come when."""

    capacities: Mapping[str, CellCapacity]  #: of each cell, as it publishes it
    at_s: Floats  #: [N], rising
    tenant: Indices  #: [N]
    tenants: Sequence[str]  #: that `tenant` points into
    lost: str = ""  #: a cell that is away; empty: none
    outage: Outage | None = None  #: when it is
    seed: int = 0


def route(world: CellWorld, *, is_planned: bool = True) -> Indices:
    """Say which cell each request goes to; without a plan every tenant's are made at its home.

    Returns: [N], indices into the cells' names, in their order
    """
    names = list(world.capacities)
    rates = {name: capacity.rate for name, capacity in world.capacities.items()}
    whole, rest = _homes(world.tenants, rates), _homes(world.tenants, _without(rates, world.lost))
    drawn = np.random.default_rng(world.seed).random(len(world.at_s))
    chosen = np.empty(len(world.at_s), np.int64)
    seen: Mapping[str, float] = {}
    seconds = math.ceil(float(world.at_s[-1]) / LOOK_S) if len(world.at_s) else 0
    edges = np.searchsorted(world.at_s, np.arange(seconds + 2) * LOOK_S)
    for second, (low, high) in enumerate(pairwise(edges)):
        is_away = world.outage is not None and (
            world.outage.begin_s <= second * LOOK_S < world.outage.end_s
        )
        able = {n: c for n, c in world.capacities.items() if not (is_away and n == world.lost)}
        home = (rest if is_away else whole)[world.tenant[low:high]]
        shares = plan_shares(able, {h: n for h, n in seen.items() if h in able})
        moved = _drawn(shares, names, home, drawn[low:high]) if is_planned else home
        chosen[low:high] = moved
        seen = _averaged(seen, np.bincount(home, minlength=len(names)), names)
    return chosen


def _homes(tenants: Sequence[str], rates: Mapping[str, float]) -> Indices:
    """[T], the home of each tenant; cells that are lost are in no order."""
    names = list(rates)
    able = {name: rate for name, rate in rates.items() if rate > 0}
    return np.array([names.index(ranked(tenant, able)[0]) for tenant in tenants], np.int64)


def _without(of: Mapping[str, float], name: str) -> Mapping[str, float]:
    return {each: 0.0 if each == name else value for each, value in of.items()}


def _averaged(
    seen: Mapping[str, float], counts: NDArray[np.int64], names: Sequence[str]
) -> Mapping[str, float]:
    """Average arrivals a second as routers do."""
    kept = math.exp(-LOOK_S / MEMORY_S)
    if not seen:
        return {name: count / LOOK_S for name, count in zip(names, counts.tolist(), strict=True)}
    return {
        name: kept * seen[name] + (1 - kept) * count / LOOK_S
        for name, count in zip(names, counts.tolist(), strict=True)
    }


def _drawn(shares: Shares, names: Sequence[str], home: Indices, drawn: Floats) -> Indices:
    """Move the share of each home's requests that the plan moves."""
    chosen = home.copy()
    for name, row in shares.items():
        if len(row) > 1:
            rows = home == names.index(name)
            ends = np.cumsum(list(row.values()))
            cells = np.array([names.index(cell) for cell in row], np.int64)
            at = np.minimum(np.searchsorted(ends, drawn[rows], side="right"), len(cells) - 1)
            chosen[rows] = cells[at]
    return chosen
