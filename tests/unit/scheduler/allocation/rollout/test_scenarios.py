import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.allocation.rollout.scenarios import GRID, cells_of, foreseen, futures
from tests.unit.scheduler.allocation.rollout.worlds import history

LONG = np.array(history(3.0))


def drawn(past: np.ndarray, rate: float = 3.0, seed: int = 0, draws: int = 1):
    return futures(past, rate, 60, np.random.default_rng(seed), draws)


def test_futures_are_the_same_for_the_same_seed() -> None:
    one, other = drawn(LONG), drawn(LONG)
    assert all((a.work == b.work).all() for a, b in zip(one, other, strict=True))


def test_without_a_past_a_flat_future_is_drawn_at_what_is_expected() -> None:
    found = drawn(np.zeros(0), rate=20.0)
    assert len(found) == 4
    assert found[0].work.mean() == pytest.approx(20.0, rel=0.1)


def test_stretches_of_the_past_are_at_today_s_rate() -> None:
    """An hour ago five times as much came, in waves of the same shape."""
    wave = np.tile(np.repeat([1.0, 3.0], 60), 10)
    found = drawn(np.concatenate([5 * wave, wave]))
    assert len(found) == 10
    means = [future.work.mean() for future in found[:6]]
    assert all(0.5 < mean < 4.5 for mean in means)


def test_a_spike_and_a_dip_are_always_among_them() -> None:
    *_, flat, spike, dip = drawn(20 * LONG)
    assert spike.work[10:35].mean() > 1.4 * flat.work.mean()
    assert dip.work[30:].mean() < 0.75 * flat.work.mean()


def test_plans_of_a_future_expect_what_came_until_then() -> None:
    rising = np.concatenate([np.full(30, 3.0), np.full(30, 9.0)])
    expected = foreseen(LONG, rising, 3.3, 10)
    assert (expected[:10] == 3.3).all()
    assert expected[30] < 4.0 < 8.0 < expected[50]


def test_cells_are_powers_of_the_grid() -> None:
    assert cells_of(np.array([1.0, GRID, GRID**2])).tolist() == [0, 1, 2]


def test_a_spike_weighs_as_much_as_spikes_have_come_often() -> None:
    spiky = np.tile(np.concatenate([np.full(75, 3.0), np.full(50, 12.0), np.full(75, 3.0)]), 9)
    calm, wild, high = drawn(LONG)[-2], drawn(spiky)[-2], drawn(spiky[:-80])[-2]
    assert calm.weight < 0.2 * wild.weight
    assert high.weight == calm.weight  # none has come on top of another
    assert drawn(LONG[:140])[-2].weight == pytest.approx(0.7 * 0.2)


def test_where_as_much_has_never_come_nobody_knows_whether_a_spike_follows() -> None:
    risen = np.concatenate([LONG, np.full(30, 9.0)])
    assert drawn(risen)[-2].weight == pytest.approx(0.7 * 0.7 * 0.2)


@given(draws=st.integers(1, 8))
def test_more_draws_share_the_weight_of_one(draws: int) -> None:
    one, several = drawn(LONG)[-4:], drawn(LONG, draws=draws)[-4 * draws :]
    for which, future in enumerate(one):
        own = several[which * draws : (which + 1) * draws]
        assert sum(each.weight for each in own) == pytest.approx(future.weight)
        assert len({each.work.tobytes() for each in own}) == draws


def test_of_the_flat_futures_the_one_that_was_right_weighs_most() -> None:
    waves = np.tile(np.repeat([1.0, 5.0], 20), 30)  # over in 20 s: a minute's mean knows best
    slow = np.tile(np.repeat([1.0, 5.0], 200), 5)
    for past, is_short_better in ((waves, False), (slow, True)):
        short, long = drawn(past)[-4:-2]
        assert (short.weight > long.weight) is is_short_better
        assert short.weight + long.weight == pytest.approx(0.7 * 2.5)
