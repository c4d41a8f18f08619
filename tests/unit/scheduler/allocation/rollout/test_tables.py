from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.boards.cost import Cost
from core.boards.demand import AskedJob
from scheduler.allocation.problem import Demand
from scheduler.allocation.rollout.change import LEAST_ROOM, room, transition
from scheduler.allocation.rollout.tables import MOST_WORKERS, scaled, tables
from tests.unit.scheduler.allocation.rollout.worlds import a_seat, an_instance


@given(slow=st.integers(0, 3000), fast=st.integers(0, 3000), scale=st.integers(1, 90))
def test_counts_are_scaled_to_the_workers_of_a_rollout(slow: int, fast: int, scale: int) -> None:
    seats = [a_seat("slow")] * max(1, (slow + fast) // scale)
    counts = {("gpu", "slow"): slow, ("gpu", "fast"): fast}
    found = scaled(counts, seats)
    assert sum(found.values()) == (len(seats) if slow + fast else 0)
    for slot, count in found.items():
        assert abs(count - counts[slot] * len(seats) / (slow + fast)) < 1


def test_a_large_fleet_is_rolled_out_as_a_small_one() -> None:
    instance = an_instance(*["slow"] * 3000, *["fast"] * 1000, rate=500.0)
    assert instance.situation is not None
    board = tables(instance, instance.situation, 60.0)
    assert board is not None
    assert len(board.seats) <= MOST_WORKERS
    share = sum(seat.serves == "fast" for seat in board.seats) / len(board.seats)
    assert 0.2 < share < 0.3


def test_steps_that_images_share_take_as_long_as_was_measured() -> None:
    instance = an_instance("slow", rate=1.0)
    assert instance.situation is not None
    shared = Cost(fixed_s=0.0, steps=((1, 0.08), (4, 0.16)))
    situation = replace(
        instance.situation,
        seats=(a_seat("slow", sharing=4),),
        costs={("gpu", "slow"): shared},
    )
    board = tables(instance, situation, 60.0)
    assert board is not None
    slow = [level.name for level in instance.levels].index("slow@0")
    assert board.levels.seconds[slow, 0, 0] == 4.0
    assert board.levels.seconds[slow, 0, 3] == 8.0


def asked_of(*jobs: AskedJob, slots: int) -> np.ndarray:
    instance = an_instance("slow", rate=1.0)
    assert instance.situation is not None
    seats = (a_seat("slow", slots=slots),)
    situation = replace(instance.situation, jobs={"default": jobs}, seats=seats)
    board = tables(instance, situation, 60.0)
    assert board is not None
    (found,) = board.asked
    return found


def test_small_jobs_that_pass_large_ones_bear_longer_queues() -> None:
    one, eight = AskedJob(images=1, promised_s=12.0), AskedJob(images=8, promised_s=96.0)
    assert asked_of(one, eight, slots=1).tolist() == [[1, 12.0, 12.0], [8, 68.0, 68.0]]
    small, large = asked_of(one, eight, slots=4)
    assert small.tolist() == [1, 12.0, 4.0 + 8.0 * 9]  # a ninth of the images is before it
    assert large.tolist() == [8, 68.0, 68.0]


@pytest.mark.parametrize(
    ("told", "promised"),
    [
        ({"default": 12.0, "default fast": 3.0}, [12.0, 3.0]),
        ({"default": 12.0}, [12.0, 12.0]),  # as the version before told them
        ({}, [12.0, 3.0]),  # three times the best model that may make it
    ],
)
def test_jobs_that_name_a_model_have_the_promises_of_their_like(
    told: dict[str, float], promised: list[float]
) -> None:
    instance = an_instance("slow", rate=2.0)
    assert instance.situation is not None
    named = Demand(application="default", affinity="any", models=("fast",), rate=1.0)
    jobs = {key: (AskedJob(images=1, promised_s=seconds),) for key, seconds in told.items()}
    instance = replace(instance, demands=(*instance.demands, named))
    board = tables(instance, replace(instance.situation, jobs=jobs), 60.0)
    assert board is not None
    assert [float(known[0, 1]) for known in board.asked] == promised


@given(images=st.lists(st.integers(1, 8), min_size=1, max_size=30), slots=st.integers(1, 4))
def test_jobs_of_one_size_are_in_time_when_they_are_promised(images: list[int], slots: int) -> None:
    jobs = [AskedJob(images=n, promised_s=12.0 * n) for n in images]
    found = asked_of(*jobs, slots=slots)
    assert (found[:, 2] >= found[:, 1] - 1e-9).all()
    largest = found[found[:, 0] == max(images)]
    assert np.allclose(largest[:, 1], largest[:, 2])


def test_workers_that_hold_several_jobs_claim_them_before_they_begin() -> None:
    instance = an_instance("slow", rate=1.0)
    assert instance.situation is not None
    asked = {"default": (AskedJob(images=2, promised_s=24.0),)}
    claims = {}
    for slots, sharing in ((1, 1), (4, 1), (4, 4)):
        seats = (a_seat("slow", slots=slots, sharing=sharing), a_seat(None, slots=slots))
        situation = replace(instance.situation, seats=seats, jobs=asked)
        board = tables(instance, situation, 60.0)
        assert board is not None
        claims[slots, sharing] = sorted(board.fleet().claims_s)
    assert claims[1, 1] == [0.0, 0.0]
    assert claims[4, 1] == [0.0, 7 * 4.0]  # of eight images seven are before the last
    assert claims[4, 4] == [0.0, 4 * 4.0]  # four at a time


@given(waiting=st.floats(0.0, 5.0))
def test_what_waits_takes_the_time_of_workers_that_hold_its_model(waiting: float) -> None:
    instance = an_instance("slow", "slow", "fast", rate=1.0)
    assert instance.situation is not None
    one = Demand(
        application="default", affinity="any", models=("slow",), is_placed=True, rate=waiting
    )
    board = tables(replace(instance, demands=(*instance.demands, one)), instance.situation, 60.0)
    assert board is not None
    workers = {("gpu", "slow"): 2, ("gpu", "fast"): 1}
    found = room(board, workers, clears=True)
    rho, left = instance.rho, found[board.slot(("gpu", "slow"))]
    assert found[board.slot(("gpu", "fast"))] == rho
    assert left == max(LEAST_ROOM * 2 * rho, 2 * rho - 4.0 * waiting)
    assert room(board, workers)[board.slot(("gpu", "slow"))] == 2 * rho


def transitions(*seats, target):
    instance = an_instance("slow", rate=1.0)
    assert instance.situation is not None
    situation = replace(instance.situation, seats=seats)
    board = tables(replace(instance, devices={"gpu": len(seats)}), situation, 60.0)
    assert board is not None
    found = transition(board, {("gpu", model): n for model, n in target.items()})
    names = [board.models[m] if m >= 0 else None for m in found.changes.model]
    return list(zip(found.changes.at_s, found.changes.worker, names, strict=True)), found


def test_who_has_room_serves_until_it_has_loaded() -> None:
    changes, found = transitions(a_seat("slow"), a_seat("slow"), target={"slow": 1, "fast": 1})
    assert changes == [(10.0, 1, "fast")]
    assert (found.settled_s, found.now) == (10.0, {("gpu", "slow"): 2})


def test_who_has_no_room_serves_nobody_meanwhile() -> None:
    changes, found = transitions(a_seat("slow", memory_gib=5.5), target={"fast": 1})
    assert changes == [(0.0, 0, None), (10.0, 0, "fast")]
    assert found.now == {}


def test_who_loads_already_is_ready_sooner_and_may_be_turned_round() -> None:
    loading = a_seat("slow", "fast", ready_s=4.0)
    assert transitions(loading, target={"fast": 1})[0] == [(4.0, 0, "fast")]
    back = transitions(loading, target={"slow": 1})[0]
    assert back == [(4.0, 0, "fast"), (4.0, 0, "slow")]
