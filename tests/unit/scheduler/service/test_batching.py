from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from bench.batching import Server
from bench.parts.batch_policies import Batching, make_policy, until
from scheduler.service.batching import BatchLatency

SLO_S, MOST = 1.0, 8
#: 0.1 s and 0.05 s an item: eight take half of the time there is.
START_S, ITEM_S = 0.1, 0.05


def a_policy(name):
    return make_policy(name, BatchLatency(START_S, ITEM_S), slo_s=SLO_S, most=MOST)


def seconds(size):
    return START_S + size * ITEM_S


#: Times at which items that wait are due, all with the same time to wait.
QUEUES = st.lists(st.floats(-0.2, SLO_S), max_size=20).map(sorted)


@pytest.mark.parametrize("name", Batching)
@settings(max_examples=40)
@given(due=QUEUES)
def test_a_move_takes_from_the_front_and_no_more_than_fits(name, due):
    move = a_policy(name).decide(due, 0.0)
    assert 0 <= move.take <= MOST
    assert move.drop + move.take <= len(due)
    assert move.take or move.drop == len(due) or until(move) > 0.0


@pytest.mark.parametrize("name", [Batching.PROTEUS, Batching.NEXUS])
@given(due=QUEUES)
def test_what_is_taken_is_in_time_and_nobody_waits_until_it_is_late(name, due):
    move = a_policy(name).decide(due, 0.0)
    if move.take:
        assert seconds(move.take) <= due[move.drop] + 1e-9
    if name is Batching.PROTEUS and not move.take and move.drop < len(due):
        assert all(at < seconds(1) for at in due[: move.drop])
        waiting = len(due) - move.drop
        assert until(move) + seconds(waiting + 1) <= due[move.drop] + 1e-6


@given(due=st.floats(0.2, SLO_S))
def test_proteus_waits_for_a_second_item_as_long_as_the_first_can(due):
    move = a_policy(Batching.PROTEUS).decide([due], 0.0)
    if due - seconds(2) > 1e-3:
        assert (move.take, until(move)) == (0, approx(due - seconds(2)))
    elif due < seconds(2):
        assert move.take == 1


@pytest.mark.parametrize("name", Batching)
@settings(max_examples=25)
@given(gaps=st.lists(st.floats(SLO_S + seconds(1), 10.0), min_size=1, max_size=10))
def test_items_that_come_far_apart_are_never_late(name, gaps):
    arrivals = [sum(gaps[: i + 1]) for i in range(len(gaps))]
    server = Server(a_policy(name), BatchLatency(START_S, ITEM_S), SLO_S)
    served = server.serve(arrivals)
    assert (served.late, served.size) == (0.0, 1.0)


@pytest.mark.parametrize("name", Batching)
def test_a_server_that_was_slow_for_a_while_is_tried_again(name):
    policy, now = a_policy(name), 0.0
    for _ in range(100):
        policy.observe(1, 3 * SLO_S)
    for _ in range(200):
        now += 10.0
        move = policy.decide([now + SLO_S], now)
        assert (move.drop, move.take == 1 or until(move) < now + SLO_S) == (0, True)
        policy.observe(1, seconds(1))


def test_aimd_grows_by_one_and_shrinks_by_a_tenth():
    policy, queue = a_policy(Batching.AIMD), [SLO_S] * 20
    sizes = []
    for took_s in (0.1, 0.1, 0.1, 2.0, 2.0, 0.1):
        sizes.append(policy.decide(queue, 0.0).take)
        policy.observe(sizes[-1], took_s)
    assert sizes == [1, 2, 3, 4, 3, 3]


@settings(max_examples=10)
@given(start=st.floats(0.001, 1.0), item=st.floats(0.001, 1.0), seed=st.integers(0, 99))
def test_what_batches_take_is_learnt(start, item, seed):
    rng, latency = Random(seed), BatchLatency(1.0, 1.0)
    for _ in range(1500):
        size = rng.randint(1, MOST)
        latency.observe(size, start + size * item)
    for size in (1, MOST):
        assert latency.seconds(size) == approx(start + size * item, rel=0.01)
    assert latency.largest(latency.seconds(3) + 1e-6, MOST) == 3
    assert latency.largest(latency.seconds(1) * 0.9, MOST) == 0


def test_batches_of_one_size_promise_nothing_of_larger_ones():
    latency = BatchLatency(0.1, 0.1)
    for _ in range(3000):
        latency.observe(1, 0.2)
    assert latency.seconds(4) == approx(0.8)
