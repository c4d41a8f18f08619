import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.arrivals import Pattern, arrive, constant, gamma, poisson, varying

rates = st.floats(0.05, 200.0)
durations = st.floats(0.1, 60.0)
seeds = st.integers(0, 2**31)


@given(rates, durations, st.floats(0.1, 6.0), seeds, st.sampled_from(Pattern))
@settings(max_examples=100, deadline=None)
def test_arrivals_rise_and_stay_inside_the_run(rate, duration_s, cv, seed, pattern):
    seconds = arrive(pattern, rate, duration_s, cv=cv, seed=seed)
    assert np.all(np.diff(seconds) >= 0)
    assert np.all((seconds >= 0) & (seconds < duration_s))


@given(rates, durations, st.floats(0.1, 6.0), seeds, st.sampled_from(Pattern))
@settings(max_examples=50, deadline=None)
def test_a_seed_decides_every_arrival(rate, duration_s, cv, seed, pattern):
    first, second = (arrive(pattern, rate, duration_s, cv=cv, seed=seed) for _ in range(2))
    assert np.array_equal(first, second)


@given(rates, durations)
@settings(deadline=None)
def test_constant_arrivals_are_one_gap_apart(rate, duration_s):
    seconds = constant(rate, duration_s)
    assert seconds[0] == 0.0
    assert np.diff(seconds) == pytest.approx(1 / rate)
    assert len(seconds) == pytest.approx(rate * duration_s, abs=1.01)


@pytest.mark.parametrize("cv", [0.25, 0.5, 1.0, 2.0, 4.0])
def test_gamma_gaps_have_the_mean_and_variation_asked_for(cv):
    gaps = np.diff(gamma(50.0, 4000.0, cv=cv, seed=7))
    assert gaps.mean() == pytest.approx(1 / 50.0, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.05)


def test_poisson_counts_vary_as_much_as_their_mean():
    seconds = poisson(20.0, 5000.0, seed=3)
    counts = np.histogram(seconds, bins=5000, range=(0, 5000))[0]
    assert counts.mean() == pytest.approx(20.0, rel=0.03)
    assert counts.var() == pytest.approx(20.0, rel=0.10)


def test_poisson_gaps_are_memoryless():
    gaps = np.diff(poisson(10.0, 5000.0, seed=5))
    late = gaps[gaps > 0.1] - 0.1
    assert late.mean() == pytest.approx(gaps.mean(), rel=0.05)


def test_bursty_arrivals_crowd_where_regular_ones_do_not():
    regular, bursty = (
        np.histogram(gamma(20.0, 500.0, cv=cv, seed=1), bins=500, range=(0, 500))[0]
        for cv in (0.5, 4.0)
    )
    assert bursty.max() > 2 * regular.max()


def test_a_rate_that_varies_is_met_at_every_moment():
    seconds = varying([0, 1000, 1500, 2000], [2.0, 10.0, 10.0, 0.0], seed=3)
    assert np.all(np.diff(seconds) >= 0)
    assert np.all((seconds >= 0) & (seconds <= 2000))
    counts = np.histogram(seconds, bins=[0, 500, 1000, 1500, 2000])[0]
    assert counts == pytest.approx([2000, 4000, 5000, 2500], rel=0.06)
    assert np.array_equal(seconds, varying([0, 1000, 1500, 2000], [2.0, 10.0, 10.0, 0.0], seed=3))
