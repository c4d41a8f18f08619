"""Calls that give way at each layer compute what they compute at once, in turn with the caller."""

import gc
import threading
import time
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from worker.diffusion.slices import Slices, give_way_in

LONG_AGO = 0.0  #: every slice is over at once


def ignore(result):
    """Hear what a call returned."""


def a_network(depth=3):
    network = nn.Sequential(*(nn.Linear(4, 4) for _ in range(depth)))
    give_way_in(network)
    return network


class Slow(nn.Module):
    """A layer that takes a while."""

    def forward(self, given):
        self.begun.append(given)
        time.sleep(0.05)
        return given


def plain(slices, call, done):
    slices.add(call, done, nullcontext)


def test_a_call_gives_way_at_each_of_its_layers():
    network, made, slices = a_network(3), [], Slices()
    plain(slices, lambda: network(torch.ones(1, 4)), made.append)
    assert [slices.run(LONG_AGO) for _ in range(4)] == [False, False, False, True]
    assert torch.equal(made[0], network(torch.ones(1, 4)))


def test_a_layer_that_would_take_longer_than_is_left_of_a_slice_waits_for_the_next():
    network, slices, begun = nn.Sequential(Slow()), Slices(), []
    give_way_in(network)
    network[0].begun = begun
    for _ in range(2):
        plain(slices, lambda: network(torch.ones(1)), ignore)
    assert slices.run(time.perf_counter() + 1e3)
    assert len(begun) == 1, "now it is known how long it takes"
    assert not slices.run(time.perf_counter() + 0.04) and len(begun) == 1
    assert slices.run(time.perf_counter() + 0.04) and len(begun) == 2
    slices.clear()


def test_without_a_limit_it_runs_to_its_end():
    network, made, slices = a_network(), [], Slices()
    plain(slices, lambda: network(torch.ones(1, 4)), made.append)
    assert slices.run(None) and not slices
    assert not slices.is_over(None)


def test_a_whole_call_is_made_in_the_thread_that_asks_for_it():
    slices, threads = Slices(), []
    plain(slices, lambda: threads.append(threading.current_thread()), ignore)
    slices.run(None)
    assert threads == [threading.current_thread()] and slices._baton is None


def test_a_call_that_has_begun_is_ended_where_it_began():
    network, slices, threads = a_network(), Slices(), []

    def call():
        network(torch.ones(1, 4))
        threads.append(threading.current_thread())

    plain(slices, call, ignore)
    slices.run(LONG_AGO)
    assert slices.run(None) and threads != [threading.current_thread()]
    slices.clear()


def test_calls_are_made_one_after_the_other():
    network, order, slices = a_network(), [], Slices()
    for name in "ab":
        plain(slices, lambda name=name: (order.append(name), network(torch.ones(1, 4))), ignore)
    while slices:
        slices.run(LONG_AGO)
    assert order == ["a", "b"]


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=5))
def test_whoever_computes_computes_alone(calls):
    network, slices, computing, done = a_network(), Slices(), [], []

    def call(times):
        for _ in range(times):
            computing.append("call")
            network(torch.ones(1, 4))
            computing.remove("call")
        return times

    for times, _ in calls:
        plain(slices, lambda times=times: call(times), done.append)
    while slices:
        slices.run(LONG_AGO)
        before = len(computing)
        time.sleep(0)
        assert len(computing) == before <= 1
    assert done == [times for times, _ in calls]
    slices.clear()


def test_what_a_call_raises_is_raised_where_it_was_asked_for():
    slices = Slices()

    def call():
        raise ValueError("a poisoned call")

    plain(slices, call, ignore)
    with pytest.raises(ValueError, match="a poisoned call"):
        slices.run(None)
    assert not slices


def test_a_module_that_nobody_slices_is_as_it_was():
    network = a_network()
    assert network(torch.ones(1, 4)).shape == (1, 4)


def test_a_call_that_nobody_waits_for_ends_and_lets_go_of_its_thread():
    network, left, slices, before = a_network(), [], Slices(), threading.active_count()

    def call():
        try:
            network(torch.ones(1, 4))
        finally:
            left.append(True)

    plain(slices, call, ignore)
    slices.run(LONG_AGO)
    slices.clear()
    for _ in range(200):
        if left and threading.active_count() <= before:
            break
        time.sleep(0.01)
    assert left == [True] and threading.active_count() <= before


def test_slices_that_are_forgotten_leave_no_thread():
    before, slices = threading.active_count(), Slices()
    plain(slices, lambda: 1, ignore)
    slices.run(None)
    del slices
    gc.collect()
    for _ in range(200):
        if threading.active_count() <= before:
            return
        time.sleep(0.01)
    raise AssertionError("a thread is left")


def test_the_time_of_a_call_that_cannot_give_way_is_not_counted():
    slices = Slices()
    plain(slices, lambda: 1, ignore)
    assert slices.run(LONG_AGO) and not slices.is_over(LONG_AGO)
