import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import AllocationError
from core.levels.level import Level
from scheduler.allocation.allocate import (
    EXACT_DEVICES,
    _around,
    _searches,
    allocate,
    approximate,
    exact,
    first_close,
    rounded,
)
from scheduler.allocation.problem import Allocation, Demand, Instance
from tests.unit.scheduler.instances import instances
from tests.unit.scheduler.laws import check_limits

BASE, TINY = Level(model="base"), Level(model="tiny")


def an_instance(workers: int, *rates: tuple[tuple[str, ...], float]) -> Instance:
    """Base: 1 s a job, quality 1. Tiny: 0.25 s a job, quality 0.6."""
    return Instance(
        devices={"cpu": workers},
        levels=(BASE, TINY),
        demands=tuple(
            Demand(application="default", affinity="any", models=models, rate=rate)
            for models, rate in rates
        ),
        tau={("base@0", "cpu"): 1.0, ("tiny@0", "cpu"): 0.25},
        quality={("any", "base@0"): 1.0, ("any", "tiny@0"): 0.6},
        worth={"base": 1.0, "tiny": 0.6},
        load={("cpu", "base"): 1.0, ("cpu", "tiny"): 1.0},
        gap=1e-6,
    )


@settings(max_examples=60, deadline=None)
@given(instances())
def test_any_demand_has_an_allocation_that_respects_every_limit(instance: Instance) -> None:
    check_limits(instance, allocate(instance))


@settings(max_examples=20, deadline=None)
@given(instances())
def test_without_an_exact_search_the_plan_is_valid_and_the_bound_holds(instance: Instance) -> None:
    best, found = allocate(instance), approximate(instance)
    check_limits(instance, found)
    assert best.objective is not None and found.bound is not None
    assert best.objective <= found.bound + 1e-5 * (1 + abs(found.bound))


@pytest.mark.parametrize("load", [0.2, 0.9, 1.5])
def test_a_large_fleet_is_rounded_to_within_a_hundredth(load: float) -> None:
    """900 of a type that ends 1 job/s at base and 4 at tiny, and 333 that take twice as long."""
    one = an_instance(900, (("base", "tiny"), 3840 * load))
    instance = replace(
        one,
        devices={"cpu": 900, "old": 333},
        tau=one.tau | {("base@0", "old"): 2.0, ("tiny@0", "old"): 0.5},
        load=one.load | {("old", "base"): 1.0, ("old", "tiny"): 1.0},
        gap=1e-2,
    )
    assert instance.num_devices > EXACT_DEVICES
    allocation = allocate(instance)
    check_limits(instance, allocation)
    assert allocation.gap is not None and allocation.gap <= 1e-2


@settings(max_examples=15, deadline=None)
@given(instances())
def test_the_same_instance_gives_the_same_allocation(instance: Instance) -> None:
    assert allocate(instance) == allocate(instance)


@settings(max_examples=12, deadline=None)
@given(instances())
def test_no_other_counts_are_better(instance: Instance) -> None:
    """Every way to divide two workers of each type, each with its best flows."""
    small = replace(instance, devices={t: min(2, n) for t, n in instance.devices.items()})
    best = allocate(small).objective
    for counts in ways(small):
        assert allocate(replace(small, settling=counts)).objective <= best + 1e-4 * (1 + abs(best))


def ways(instance: Instance) -> list[dict[tuple[str, str], int]]:
    slots = sorted(slot for slot in instance.load if instance.devices[slot[0]])
    every = itertools.product(*(range(instance.devices[t] + 1) for t, _ in slots))
    counts = [dict(zip(slots, numbers, strict=True)) for numbers in every]
    fitting = {t for t, _ in slots}
    return [
        n
        for n in counts
        if all(sum(v for (u, _), v in n.items() if u == t) == instance.devices[t] for t in fitting)
    ]


def test_one_model_is_held_by_every_worker() -> None:
    only = replace(an_instance(3), load={("cpu", "base"): 1.0})
    assert allocate(only).counts == {("cpu", "base"): 3}


def test_quality_is_kept_while_there_is_room_for_it() -> None:
    allocation = allocate(an_instance(2, (("base", "tiny"), 0.5)))
    assert allocation.levels == pytest.approx({"base@0": 0.5})


def test_quality_gives_way_before_anybody_waits() -> None:
    allocation = allocate(an_instance(2, (("base", "tiny"), 4.0)))
    assert sum(allocation.unserved) == pytest.approx(0.0, abs=1e-9)
    assert allocation.levels == pytest.approx({"base@0": 0.9, "tiny@0": 3.1})


def test_what_no_worker_has_time_for_counts_as_unserved() -> None:
    allocation = allocate(an_instance(1, (("base",), 2.7)))
    assert sum(allocation.unserved) == pytest.approx(2.7 - 0.9)


def test_a_model_asked_for_by_name_has_a_worker_however_little_it_is_asked_for() -> None:
    allocation = allocate(an_instance(2, (("base",), 50.0), (("tiny",), 0.001)))
    assert allocation.counts == {("cpu", "base"): 1, ("cpu", "tiny"): 1}


@pytest.mark.parametrize(("base", "tiny"), [(0.3, 0.1), (0.1, 0.3)])
def test_one_worker_holds_whichever_model_is_asked_for_more(base: float, tiny: float) -> None:
    allocation = allocate(an_instance(1, (("base",), base), (("tiny",), tiny)))
    assert allocation.models == {"base" if base > tiny else "tiny"}


def test_an_idle_fleet_holds_the_best_model() -> None:
    assert allocate(an_instance(3)).counts == {("cpu", "base"): 3, ("cpu", "tiny"): 0}


def test_nothing_is_loaded_for_nothing() -> None:
    held = {("cpu", "tiny"): 2, ("cpu", "base"): 1}
    slow = {("cpu", "base"): 60.0, ("cpu", "tiny"): 60.0}
    assert allocate(replace(an_instance(3), held=held, load=slow)).counts == held


def test_a_worker_that_is_loading_is_left_to_finish() -> None:
    settling = {("cpu", "tiny"): 1}
    allocation = allocate(replace(an_instance(1, (("base",), 0.5)), settling=settling))
    assert allocation.models == {"tiny"}


@pytest.mark.parametrize("workers", [3, 40, 300])
def test_no_more_workers_are_given_a_model_than_can_hold_it(workers: int) -> None:
    for rates in ((), ((("base",), 20.0),)):
        instance = replace(an_instance(workers, *rates), able={("cpu", "base"): 2})
        assert allocate(instance).counts == {("cpu", "base"): 2, ("cpu", "tiny"): workers - 2}


def test_counts_that_cannot_be_are_an_error() -> None:
    with pytest.raises(AllocationError, match="no allocation of 1 workers: INFEASIBLE"):
        allocate(replace(an_instance(1), settling={("cpu", "tiny"): 1, ("cpu", "base"): 1}))


def test_a_fleet_of_none_serves_nobody() -> None:
    allocation = allocate(an_instance(0, (("base",), 1.0)))
    assert allocation.models == frozenset()
    assert allocation.unserved == pytest.approx((1.0,))


def test_the_search_around_a_split_allocation_takes_a_worker_more_or_less() -> None:
    split = {("cpu", "base"): 0.2, ("cpu", "tiny"): 2.8}
    assert _around(split, an_instance(3)) == {("cpu", "base"): (0, 1), ("cpu", "tiny"): (2, 3)}
    settling = replace(an_instance(3), settling={("cpu", "base"): 1})
    assert _around(split, settling)["cpu", "base"] == (1, 1)
    able = replace(an_instance(3), able={("cpu", "tiny"): 2})
    assert _around(split | {("cpu", "tiny"): 2.0}, able)["cpu", "tiny"] == (1, 2)


def test_what_was_split_and_rounded_is_found_though_the_search_around_it_is_not_needed() -> None:
    found = approximate(an_instance(2, (("base", "tiny"), 4.0)))
    assert found.levels == pytest.approx({"base@0": 0.9, "tiny@0": 3.1})


def test_the_hours_that_an_instance_allows_are_there_for_each_search() -> None:
    patient = replace(an_instance(2, (("base", "tiny"), 4.0)), limit_s=1e9)
    for search in (exact, approximate):
        assert search(patient).levels == pytest.approx({"base@0": 0.9, "tiny@0": 3.1})


@pytest.mark.parametrize(
    ("devices", "searches"),
    [
        (16, (exact, approximate)),
        (17, (approximate, exact)),
        (200, (approximate, exact)),
        (201, (approximate,)),
    ],
)
def test_the_larger_a_fleet_the_less_is_searched_exactly(
    devices: int, searches: tuple[object, ...]
) -> None:
    assert _searches(devices) == searches


class Answers:
    """A way to search that gives one answer, and counts how often it was gone."""

    def __init__(self, objective: float | None, bound: float = 0.0) -> None:
        self.objective, self.bound = objective, bound
        self.asked = 0

    def __call__(self, instance: Instance) -> Allocation:
        self.asked += 1
        if self.objective is None:
            raise AllocationError("out of time")
        return Allocation(
            counts={}, flows=(), unserved=(), objective=self.objective, bound=self.bound
        )


def test_no_time_is_spent_once_an_answer_is_as_close_to_the_bound_as_was_asked() -> None:
    instance = replace(an_instance(1), gap=0.25)
    for close in (Answers(0.5, 0.75), Answers(0.5, 0.5)):
        other = Answers(0.7, 0.7)
        assert first_close(instance, close, other).objective == 0.5
        assert (close.asked, other.asked) == (1, 0)
    far, other = Answers(0.5, 0.76), Answers(0.7, 0.7)
    assert first_close(instance, far, other).objective == 0.7
    assert (far.asked, other.asked) == (1, 1)


@pytest.mark.parametrize("objectives", [(0.0, 0.5), (0.5, 0.0), (0.0, -0.5), (-0.5, 0.0)])
def test_of_answers_that_are_not_close_the_better_is_taken_and_the_closer_bound(
    objectives: tuple[float, float],
) -> None:
    searches = [Answers(each, bound) for each, bound in zip(objectives, (2.0, 1.0), strict=True)]
    for order in (searches, searches[::-1]):
        found = first_close(an_instance(1), *order)
        assert (found.objective, found.bound) == (max(objectives), 1.0)


def test_a_search_that_finds_nothing_leaves_the_answer_of_another() -> None:
    nothing, far = Answers(None), Answers(0.5, 2.0)
    for order in ((nothing, far), (far, nothing)):
        assert first_close(an_instance(1), *order).objective == 0.5
    with pytest.raises(AllocationError, match="out of time"):
        first_close(an_instance(1), nothing, nothing)


@given(st.lists(st.floats(0.0, 50.0), min_size=1, max_size=6), st.integers(0, 60))
def test_every_type_keeps_its_workers_and_no_count_moves_by_one(
    weights: list[float], workers: int
) -> None:
    whole = sum(weights) or 1.0
    split = {("gpu", f"m{i}"): workers * weight / whole for i, weight in enumerate(weights)}
    if sum(weights) == 0:
        split["gpu", "m0"] = float(workers)
    found = rounded(split)
    assert sum(found.values()) == workers
    for slot, count in found.items():
        assert abs(count - split[slot]) < 1 + 1e-5


def test_the_largest_remainders_go_up() -> None:
    split = {("a", "x"): 1.5, ("a", "y"): 0.8, ("a", "z"): 0.7, ("b", "x"): 2.0}
    assert rounded(split) == {("a", "x"): 1, ("a", "y"): 1, ("a", "z"): 1, ("b", "x"): 2}
    assert rounded({("a", "x"): 0.1, ("a", "y"): 2.9}) == {("a", "x"): 0, ("a", "y"): 3}


@pytest.mark.parametrize("almost", [2.9999999, 3.0000001])
def test_what_a_solver_calls_three_is_three(almost: float) -> None:
    assert rounded({("a", "x"): almost, ("a", "y"): 4 - almost}) == {("a", "x"): 3, ("a", "y"): 1}
