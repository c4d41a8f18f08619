import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.arrivals.gaps import poisson
from loadgen.workload import Workload
from simulator.sizing.days import another_day


def a_workload(duration_s=3600.0, rate=2.0, seed=0):
    at_s = poisson(rate, duration_s, seed=seed)
    texts = [f"prompt {i}" for i in range(7)]
    tags = np.arange(len(at_s))
    return Workload.of(at_s, prompts=texts, prompt=tags % 7, others={"tag": tags})


def test_the_first_day_is_the_given_one():
    workload = a_workload()
    assert another_day(workload, 10.0, seed=0) is workload


@given(st.integers(1, 50), st.floats(1.0, 60.0))
@settings(max_examples=30, deadline=None)
def test_another_day_has_as_much_load_and_no_request_of_its_own(seed, slo_s):
    workload = a_workload(duration_s=1800.0)
    day = another_day(workload, slo_s, seed=seed)
    assert np.all(np.diff(day.at_s) >= 0)
    assert day.at_s[0] >= 0
    assert day.at_s[-1] <= 1.01 * workload.duration_s
    assert len(day) == pytest.approx(len(workload), rel=0.25)
    tags = day.others["tag"]
    assert np.array_equal(day.prompt, workload.prompt[tags])  # a row stays whole


def test_the_course_of_the_day_stays():
    early, late = poisson(0.5, 1800.0, seed=1), 1800.0 + poisson(4.0, 1800.0, seed=2)
    workload = Workload.of(np.concatenate([early, late]))
    day = another_day(workload, 10.0, seed=3)
    half = float(np.mean(day.at_s < 1800.0))
    assert half == pytest.approx(len(early) / len(workload), abs=0.05)


def test_two_seeds_are_two_days():
    one, other = (another_day(a_workload(), 10.0, seed=seed) for seed in (1, 2))
    assert len(one) != len(other) or not np.array_equal(one.at_s, other.at_s)


def test_a_day_without_requests_stays_one():
    assert len(another_day(Workload.of([]), 10.0, seed=1)) == 0
