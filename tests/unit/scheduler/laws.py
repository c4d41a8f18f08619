"""What holds of every allocation, whichever policy made it."""

import pytest

from core.boards.plan import PasmRow
from core.levels.level import Level
from scheduler.allocation.pasm import align
from scheduler.allocation.problem import Allocation, Instance
from tests.unit.scheduler.instances import APPLICATIONS


def check_limits(instance: Instance, allocation: Allocation) -> None:
    """Nobody works more than they can, holds what does not fit, or serves what they may not."""
    slack = 1e-5 * (1 + sum(d.rate for d in instance.demands))
    _check_counts(instance, allocation)
    busy = dict.fromkeys(allocation.counts, 0.0)
    served = list(allocation.unserved)
    for flow in allocation.flows:
        demand = instance.demands[flow.demand]
        level = Level.read(flow.level)
        assert flow.rate > 0
        assert level.model in demand.models
        assert level.is_exact or not demand.is_exact
        served[flow.demand] += flow.rate
        busy[flow.device_type, level.model] += (
            instance.tau[flow.level, flow.device_type] * flow.rate
        )
    for slot, used in busy.items():
        assert used <= instance.rho * allocation.counts[slot] + slack
    for demand, rate in zip(instance.demands, served, strict=True):
        assert rate == pytest.approx(demand.rate, abs=slack)


def check_rows(instance: Instance, allocation: Allocation) -> None:
    """Rows sum to one, have no negative entry, and cause the loads of the plan."""
    classes = sorted({affinity for affinity, _ in instance.quality})
    rows = align(instance, allocation, APPLICATIONS, classes)
    for row in rows:
        assert sum(row.shares.values()) == pytest.approx(1.0, abs=1e-9)
        assert min(row.shares.values()) > 0
        assert {Level.read(name).model for name in row.shares} <= allocation.models
    assert _loads(instance, allocation, rows) == pytest.approx(allocation.levels, rel=1e-6)


def row_of(rows: tuple[PasmRow, ...], *key: object) -> PasmRow:
    """Find the row of an application, a class and models."""
    return next(r for r in rows if (r.application, r.affinity, r.models) == key)


def _check_counts(instance: Instance, allocation: Allocation) -> None:
    for device_type, count in instance.devices.items():
        fits = any(t == device_type for t, _ in instance.load)
        held = sum(n for (t, _), n in allocation.counts.items() if t == device_type)
        assert held == (count if fits else 0)
    for slot, count in instance.settling.items():
        assert allocation.counts[slot] >= count


def _loads(
    instance: Instance, allocation: Allocation, rows: tuple[PasmRow, ...]
) -> dict[str, float]:
    loads = dict.fromkeys(allocation.levels, 0.0)
    for flow in allocation.flows:  # exact prompts have no row: they all take one level
        if instance.demands[flow.demand].is_exact:
            loads[flow.level] += flow.rate
    for i, demand in enumerate(instance.demands):
        served = sum(flow.rate for flow in allocation.flows if flow.demand == i)
        if demand.is_exact or served <= 0:
            continue
        row = row_of(rows, demand.application, demand.affinity, demand.models)
        for level, share in row.shares.items():
            loads[level] += share * served
    return loads
