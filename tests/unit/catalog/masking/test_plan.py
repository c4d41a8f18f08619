from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from catalog.masking.plan import (
    BlockTimes,
    plan_ahead,
    plan_exactly,
    plan_greedily,
    plan_whole,
    split_ahead,
)

PLANS = (plan_ahead, plan_exactly, plan_greedily, plan_whole)

_TIMES = st.floats(0, 10)
BLOCKS = st.lists(
    st.builds(BlockTimes, before=_TIMES, full=_TIMES, cached=_TIMES, load=_TIMES), max_size=8
)


def in_step(blocks, choices):
    loaded = computed = 0.0
    for block, uses_cache in zip(blocks, choices, strict=True):
        if uses_cache:
            loaded += block.load
        computed += block.before
        computed = max(loaded, computed) + block.cached if uses_cache else computed + block.full
    return computed


def ahead(blocks, choices):
    chosen = list(zip(blocks, choices, strict=True))
    loads = sum(block.load for block, uses_cache in chosen if uses_cache)
    computed = (block.before + (block.cached if uses else block.full) for block, uses in chosen)
    return max(loads, sum(computed))


@pytest.mark.parametrize("plan, seconds", [(plan_exactly, in_step), (plan_ahead, ahead)])
@given(blocks=BLOCKS)
def test_a_plan_is_the_best_of_all_and_takes_what_it_says(plan, seconds, blocks):
    every = product((False, True), repeat=len(blocks))
    found = plan(blocks)
    assert found.seconds == approx(min(seconds(blocks, choices) for choices in every), abs=1e-6)
    assert found.seconds == approx(seconds(blocks, found.uses_cache), abs=1e-6)


@given(blocks=BLOCKS)
def test_a_plan_of_all_or_nothing_is_the_better_of_both(blocks):
    plan, all_or_none = plan_whole(blocks), [[each] * len(blocks) for each in (True, False)]
    assert list(plan.uses_cache) in all_or_none
    assert plan.seconds == approx(min(ahead(blocks, each) for each in all_or_none), abs=1e-6)
    assert plan.seconds >= plan_ahead(blocks).seconds - 1e-6


@given(blocks=BLOCKS)
def test_blocks_that_can_be_split_take_what_the_plan_takes_or_less_by_a_part_of_one(blocks):
    seconds, planned = max(split_ahead(blocks)), plan_ahead(blocks).seconds
    most = max((block.full for block in blocks), default=0.0)
    assert planned - most - 1e-6 <= seconds <= planned + 1e-6


def test_a_part_of_a_block_is_used_so_that_loading_and_computing_end_together():
    a_block = BlockTimes(full=4, cached=1, load=3)
    assert split_ahead([a_block]) == approx((2, 2))
    slower = BlockTimes(before=1, full=2, cached=0, load=6)
    assert split_ahead([slower, a_block]) == approx((3.75, 3.75))
    useless = BlockTimes(full=1, cached=1, load=0)
    assert split_ahead([useless, BlockTimes(full=4, cached=1, load=1)]) == approx((2, 1))


@given(blocks=BLOCKS)
def test_the_papers_plan_takes_what_it_says_and_never_beats_the_exact_one(blocks):
    plan = plan_greedily(blocks)
    assert plan.seconds == approx(in_step(blocks, plan.uses_cache), abs=1e-6)
    assert plan.seconds >= plan_exactly(blocks).seconds - 1e-6
    assert plan_exactly(blocks).seconds >= plan_ahead(blocks).seconds - 1e-6


def test_what_is_there_already_is_used_wherever_it_saves():
    blocks = [BlockTimes(full=3, cached=1, load=0)] * 4
    for plan in PLANS:
        assert plan(blocks).uses_cache == (True,) * 4


def test_what_saves_nothing_is_not_loaded():
    blocks = [BlockTimes(before=1, full=1, cached=1, load=0.5)] * 3
    for plan in (plan_ahead, plan_exactly):
        assert plan(blocks).uses_cache == (False,) * 3


def test_a_store_that_never_answers_is_not_waited_for():
    blocks = [BlockTimes(full=3, cached=1, load=1e9)] * 4
    for plan in PLANS:
        assert plan(blocks).uses_cache == (False,) * 4


def test_an_early_load_may_cost_more_than_it_saves():
    """The paper's algorithm takes the first load, and then waits for the second."""
    blocks = [
        BlockTimes(full=4.0, cached=1.0, load=3.0),
        BlockTimes(full=9.0, cached=1.0, load=4.0),
    ]
    assert plan_greedily(blocks).seconds == 8.0
    assert plan_exactly(blocks).seconds == 5.0
