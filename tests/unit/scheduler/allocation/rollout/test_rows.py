import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.allocation.rollout.rows import ROUNDS, Uses, share
from scheduler.allocation.rollout.tables import tables
from scheduler.allocation.transition import serve
from tests.unit.scheduler.allocation.rollout.worlds import an_instance

USES = Uses(np.array([0, 1]), np.array([0, 1]), np.array([4.0, 1.0]))


def test_what_there_is_room_for_is_served_at_its_best() -> None:
    rows = share(np.array([[1.0, 0.5]]), np.array([1.0]), USES, np.array([8.0, 8.0]), ROUNDS)
    assert rows == pytest.approx(np.array([[1.0, 0.0]]))


def test_who_loses_least_gives_way_first() -> None:
    quality = np.array([[1.0, 0.9], [1.0, 0.1]])
    rows = share(quality, np.array([1.0, 1.0]), USES, np.array([4.0, 4.0]), ROUNDS)
    assert rows[0, 1] > 0.9
    assert rows[1, 0] > 0.9


def test_models_that_nobody_holds_get_nothing() -> None:
    rows = share(np.array([[1.0, 0.5]]), np.array([9.0]), USES, np.array([0.0, 1.0]), ROUNDS)
    assert rows == pytest.approx(np.array([[0.0, 1.0]]))


@settings(max_examples=20, deadline=None)
@given(rate=st.floats(0.1, 4.5), slow=st.integers(1, 7))
def test_rows_are_worth_what_the_program_s_are_to_two_per_cent(rate: float, slow: int) -> None:
    """Up to what all workers at their fastest levels end: 8 of 10 seconds each."""
    instance = an_instance(*["slow"] * slow, *["fast"] * (8 - slow), rate=rate)
    assert instance.situation is not None
    board = tables(instance, instance.situation, 60.0)
    assert board is not None
    counts = {("gpu", "slow"): slow, ("gpu", "fast"): 8 - slow}
    room = instance.rho * board.counts(counts).astype(float)
    found = share(board.levels.quality, np.array([rate]), board.uses, room, ROUNDS)
    best = serve(instance, counts)
    if sum(best.unserved) > 1e-6:
        return
    gained = sum(flow.rate * instance.quality["any", flow.level] for flow in best.flows)
    assert (found * board.levels.quality).sum() >= gained / rate - 0.02
    assert found.sum() == pytest.approx(1.0)
