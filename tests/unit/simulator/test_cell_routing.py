from dataclasses import replace

import numpy as np
import pytest

from core.cells.capacity import CellCapacity, Segment
from simulator.cell_routing import CellWorld, route
from simulator.world import Outage

RATE, SECONDS, TENANTS = 200.0, 120, 300


def capacity(rate):
    return CellCapacity(segments=(Segment(rate=rate, worth=0.9),), demand=rate)


@pytest.fixture(scope="module")
def world():
    drawn = np.random.default_rng(1)
    at_s = np.cumsum(drawn.exponential(1 / RATE, int(RATE * SECONDS)))
    sizes = drawn.lognormal(0.0, 1.5, TENANTS)
    return CellWorld(
        capacities={name: capacity(55.0) for name in "abcd"},
        at_s=at_s,
        tenant=drawn.choice(TENANTS, len(at_s), p=sizes / sizes.sum()),
        tenants=[f"t{number}" for number in range(TENANTS)],
        lost="b",
        outage=Outage(begin_s=40.0, end_s=80.0, workers=1),
    )


def is_away(world):
    return (world.at_s >= 40.0) & (world.at_s < 80.0)


def test_requests_leave_their_homes_only_while_those_are_lost(world):
    chosen, away = route(world, is_planned=False), is_away(world)
    for tenant in range(TENANTS):
        own = world.tenant == tenant
        homes = set(chosen[own & ~away].tolist())
        elsewhere = set(chosen[own & away].tolist())
        assert len(homes) <= 1 and len(elsewhere) <= 1
        assert homes == {1} or not (homes and elsewhere) or elsewhere == homes
    assert 1 not in chosen[away]


def test_no_request_goes_to_a_cell_that_is_lost_by_the_plan_either(world):
    assert 1 not in route(world)[is_away(world)]


def test_the_plan_gives_no_cell_more_than_it_can_serve_while_others_have_room(world):
    late = (world.at_s > 25.0) & (world.at_s < 40.0)
    counts = np.bincount(route(world)[late], minlength=4) / 15.0
    alone = np.bincount(route(world, is_planned=False)[late], minlength=4) / 15.0
    assert alone.max() > 64.0
    assert counts.max() < 60.0
    assert counts.sum() == pytest.approx(alone.sum())


def test_without_requests_there_is_nothing_to_route(world):
    none = replace(world, at_s=np.empty(0), tenant=np.empty(0, np.int64))
    assert len(route(none)) == 0
