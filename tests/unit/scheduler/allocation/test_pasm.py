from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings

from core.levels.approximation import skipping
from core.levels.level import Level
from scheduler.allocation.allocate import allocate
from scheduler.allocation.pasm import align
from scheduler.allocation.problem import Instance
from tests.unit.scheduler.allocation.test_allocate import BASE, TINY, an_instance
from tests.unit.scheduler.instances import APPLICATIONS, CLASSES, instances
from tests.unit.scheduler.laws import check_limits, check_rows, row_of


@settings(max_examples=60, deadline=None)
@given(instances())
def test_rows_sum_to_one_and_cause_the_loads_of_the_plan(instance: Instance) -> None:
    check_rows(instance, allocate(instance))


@settings(max_examples=40, deadline=None)
@given(instances())
def test_every_class_has_a_row_while_some_worker_holds_a_model(instance: Instance) -> None:
    allocation = allocate(instance)
    rows = align(instance, allocation, APPLICATIONS, CLASSES)
    general = {(row.application, row.affinity) for row in rows if not row.models}
    every = {(a, c) for a in APPLICATIONS for c in CLASSES}
    assert general == (every if allocation.models else set())


def asked(instance: Instance, times: float) -> Instance:
    demands = tuple(replace(demand, rate=demand.rate * times) for demand in instance.demands)
    return replace(instance, demands=demands)


def half_asked(instance: Instance) -> Instance:
    """Every other class asks for nothing."""
    one, other = instance.demands[::2], asked(instance, 0.0).demands[1::2]
    return replace(instance, demands=(*one, *other))


EDGES: dict[str, Callable[[Instance], Instance]] = {
    "classes without demand": half_asked,
    "nobody asks": lambda instance: asked(instance, 0.0),
    "overload": lambda instance: asked(instance, 1e4),
    "one device": lambda instance: replace(instance, devices={"cpu": 1, "gpu": 0}, held={}),
    "one level": lambda instance: replace(instance, levels=instance.levels[:1]),
}


@pytest.mark.parametrize("edge", EDGES)
@settings(max_examples=15, deadline=None)
@given(instance=instances())
def test_rows_hold_at_the_edges(edge: str, instance: Instance) -> None:
    at_edge = EDGES[edge](instance)
    allocation = allocate(at_edge)
    check_limits(at_edge, allocation)
    check_rows(at_edge, allocation)


def test_a_class_nobody_expected_takes_the_best_level_with_room() -> None:
    instance = an_instance(2)
    (row,) = align(instance, allocate(instance), ("default",), ("any",))
    assert row.shares == {"base@0": 1.0}


def test_an_unexpected_class_follows_the_loads_of_a_plan_without_room() -> None:
    instance = an_instance(2, (("base",), 50.0), (("tiny",), 50.0))
    rows = align(instance, allocate(instance), ("default",), ("any",))
    assert row_of(rows, "default", "any", ()).shares == pytest.approx(
        {"base@0": 0.2, "tiny@0": 0.8}
    )


def test_without_a_worker_there_is_no_row() -> None:
    instance = an_instance(0, (("base",), 1.0))
    assert align(instance, allocate(instance), ("default",), ("any",)) == ()


def test_a_class_nobody_expected_leaves_alone_what_has_no_room() -> None:
    instance = an_instance(2, (("base",), 50.0), (("tiny",), 0.1))
    rows = align(instance, allocate(instance), ("default",), ("any",))
    assert row_of(rows, "default", "any", ()).shares == {"tiny@0": 1.0}


def test_of_levels_as_good_as_each_other_the_one_that_skips_fewer_steps_is_taken() -> None:
    one = an_instance(1)
    instance = replace(
        one,
        levels=(BASE, Level(model="base", approximation=skipping(10)), TINY),
        tau=one.tau | {("base@10", "cpu"): 0.8},
        quality=one.quality | {("any", "base@10"): 1.0},
    )
    (row,) = align(instance, allocate(instance), ("default",), ("any",))
    assert row.shares == {"base@0": 1.0}


def test_a_demand_without_a_flow_is_given_the_levels_that_it_may_use_if_any_is_held() -> None:
    instance = an_instance(2, (("base",), 0.0), (("tiny",), 0.1))
    limited = replace(instance.demands[0], models=("base", "tiny"), levels=frozenset({"tiny@0"}))
    instance = replace(instance, demands=(limited, instance.demands[1]))
    rows = align(instance, allocate(instance), (), ())
    assert row_of(rows, "default", "any", ("base", "tiny")).shares == {"tiny@0": 1.0}
