import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.sizing.goal import Day, Goal, Verdict, estimate, is_hopeless, judge

GOAL = Goal(max_late=0.01, min_quality=0.9, confidence=0.95)


def a_day(late=0.0, quality=0.95, jobs=10_000):
    return Day(
        jobs=jobs,
        late=late,
        quality=quality,
        goodput=quality * (1 - late),
        utilisation=0.7,
        images=float(jobs),
        reach_s=10.0,
    )


def test_a_mean_is_bounded_by_students_t():
    found = estimate([1.0, 2.0, 3.0, 4.0, 5.0], 0.95)
    reach = 2.1318 * math.sqrt(2.5 / 5)
    assert (found.low, found.high) == (
        pytest.approx(3 - reach, abs=1e-3),
        pytest.approx(3 + reach, abs=1e-3),
    )


def test_days_that_differ_much_leave_doubt_though_their_mean_keeps_the_goal():
    steady = judge({"a": 1}, [a_day(late) for late in (0.004, 0.005, 0.006)], GOAL)
    wild = judge({"a": 1}, [a_day(late) for late in (0.0, 0.0, 0.015)], GOAL)
    assert steady.verdict is Verdict.KEEPS
    assert wild.late.middle == pytest.approx(steady.late.middle)
    assert wild.verdict is Verdict.LATE


def test_few_jobs_without_a_late_one_prove_little():
    assert judge({"a": 1}, [a_day(jobs=20)] * 2, GOAL).late.high == pytest.approx(
        3.0 / 40, rel=0.01
    )
    assert judge({"a": 1}, [a_day(jobs=20)] * 2, GOAL).verdict is Verdict.LATE
    assert judge({"a": 1}, [a_day()] * 2, GOAL).verdict is Verdict.KEEPS


@pytest.mark.parametrize(
    ("late", "quality", "verdict"),
    [
        (0.0, 0.95, Verdict.KEEPS),
        (0.02, 0.95, Verdict.LATE),
        (0.0, 0.89, Verdict.POOR),
        (0.02, 0.89, Verdict.BOTH),
    ],
)
def test_a_verdict_names_what_is_missed(late, quality, verdict):
    assert judge({"a": 1}, [a_day(late, quality)] * 3, GOAL).verdict is verdict


def test_a_day_that_misses_by_far_decides_alone_and_one_that_just_misses_does_not():
    assert is_hopeless(judge({"a": 1}, [a_day(0.2)], GOAL), GOAL)
    assert is_hopeless(judge({"a": 1}, [a_day(0.0, 0.8)], GOAL), GOAL)
    assert not is_hopeless(judge({"a": 1}, [a_day(0.015)], GOAL), GOAL)
    assert not is_hopeless(judge({"a": 1}, [a_day(0.0, 0.89)], GOAL), GOAL)


@given(st.lists(st.floats(0, 0.05), min_size=2, max_size=8))
def test_what_keeps_the_goal_was_never_hopeless(lates):
    days = [a_day(late) for late in lates]
    if judge({"a": 1}, days, GOAL).keeps:
        assert not is_hopeless(judge({"a": 1}, days, GOAL), GOAL)
