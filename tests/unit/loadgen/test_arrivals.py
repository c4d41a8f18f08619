import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.arrivals.curves import DIAGONAL, bursts, diagonal, ramp, square
from loadgen.arrivals.gaps import constant, gamma, poisson
from loadgen.arrivals.patterns import BURSTY, Pattern, arrive, curve_of
from loadgen.arrivals.twitter import twitter_like
from loadgen.arrivals.varying import along, varying

rates = st.floats(0.05, 200.0)
durations = st.floats(0.1, 60.0)
seeds = st.integers(0, 2**31)


def rates_at(curve, seconds):
    return np.interp(seconds, curve.at_s, curve.per_s)


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


def test_gaps_are_as_bursty_as_those_of_the_paper_by_default():
    gaps = np.diff(arrive(Pattern.GAMMA, 100.0, 3000.0, seed=2))
    assert pytest.approx(0.05) == BURSTY**-2
    assert gaps.std() / gaps.mean() == pytest.approx(BURSTY, rel=0.05)


@pytest.mark.parametrize("pattern", Pattern)
def test_every_pattern_asks_as_often_as_it_was_told_to(pattern):
    for seed in range(3):
        count = len(arrive(pattern, 20.0, 1500.0, cv=1.5, seed=seed))
        assert count == pytest.approx(30_000, rel=0.03)


def test_a_square_wave_is_low_and_high_in_turns():
    seconds = arrive(Pattern.SQUARE, 40.0, 100.0, period_s=20.0, seed=1)
    counts = np.histogram(seconds, bins=10, range=(0, 100))[0]
    assert counts[::2].max() < 300 < counts[1::2].min()
    assert rates_at(square(100.0, period_s=20.0), [5.0, 15.0]).tolist() == [0.5, 1.5]


def test_a_square_wave_that_ends_in_the_middle_of_a_period_has_its_mean():
    assert len(arrive(Pattern.SQUARE, 40.0, 110.0, period_s=40.0)) == pytest.approx(4400, rel=0.05)


def test_a_diagonal_rises_from_the_first_moment_to_the_last():
    low, high = rates_at(diagonal(800.0), [0.0, 800.0])
    assert high / low == pytest.approx(DIAGONAL[1] / DIAGONAL[0])


def test_a_ramp_comes_back():
    low, high, back = rates_at(ramp(1000.0), [50.0, 450.0, 950.0])
    assert low == pytest.approx(back)
    assert high == pytest.approx(5 * low)


@given(st.floats(1.0, 5000.0), seeds)
@settings(max_examples=50, deadline=None)
def test_bursts_have_two_rates_whatever_the_length(duration_s, seed):
    curve = bursts(duration_s, seed=seed)
    assert curve.at_s[-1] == pytest.approx(duration_s)
    assert len(np.unique(np.round(curve.per_s, 9))) == 2


def test_a_day_is_like_the_trace_of_the_papers():
    """Mean to peak, and lowest to highest minute, as the papers say of their traces."""
    for hours in (4, 13):
        found = []
        for seed in range(10):
            curve = twitter_like(3600.0 * hours, seed=seed)
            minutes = curve.per_s[: hours * 3600].reshape(-1, 60).mean(axis=1)
            found.append((minutes.mean() / minutes.max(), minutes.min() / minutes.max()))
        means, lowest = np.mean(found, axis=0)
        assert 0.37 <= means <= 0.60
        assert lowest == pytest.approx(40 / 540, rel=0.25)


def test_a_day_has_two_nights_and_spikes():
    curve = twitter_like(14_400.0, seed=5)
    smooth = curve.per_s[:14_400].reshape(-1, 600).mean(axis=1)
    night, noon = smooth[[0, 11, 12, 23]], smooth[[5, 6, 17, 18]]
    assert night.max() < 0.5 * noon.min()
    minutes = curve.per_s[:14_400].reshape(-1, 60).mean(axis=1)
    assert np.diff(minutes).max() > 3 * np.abs(np.diff(smooth)).max() / 10


@given(
    st.lists(st.tuples(st.floats(0.01, 50), st.floats(0, 20)), min_size=2, max_size=8),
    st.floats(0.5, 4.0),
    seeds,
)
@settings(max_examples=60, deadline=None)
def test_arrivals_along_a_curve_are_where_it_expects_them(points, cv, seed):
    at_s = np.cumsum([0.0, *(width for width, _ in points[1:])])
    rates = [rate for _, rate in points]
    curve = varying(at_s, rates, cv=cv, seed=seed)
    assert np.all(np.diff(curve) >= -1e-9)
    assert np.all((curve >= 0) & (curve <= at_s[-1]))


def test_stretched_time_is_unstretched_exactly():
    """A unit process sees the same arrivals: the integral of the rate up to each is its own."""
    curve = curve_of(Pattern.RAMP, 300.0).with_mean(5.0)
    seconds, unit = along(curve, seed=4), gamma(1.0, 1500.0, cv=1.0, seed=4)
    fine = np.linspace(0, 300, 300_001)
    rate = rates_at(curve, fine)
    by_then = np.concatenate([[0], np.cumsum((rate[1:] + rate[:-1]) / 2 * np.diff(fine))])
    assert np.interp(seconds, fine, by_then) == pytest.approx(unit, abs=1e-3)
