from hypothesis import given
from hypothesis import strategies as st

from worker.engine.step_limits import (
    EXPECTED_FACTOR,
    FACTOR,
    FIRST_S,
    MIN_SEEN,
    REMEMBERED,
    UNKNOWN_S,
    StepLimits,
)

SECONDS = st.floats(0.0, 1e4)


def limit_s(limits, key="key", expected_s=None, *, is_compiled=False):
    return limits.limit_s(key, expected_s, is_compiled=is_compiled)


def after(seconds, least_s=10.0):
    limits = StepLimits(least_s)
    for each in seconds:
        limits.note("key", each)
    return limits


@given(st.lists(SECONDS), SECONDS | st.none(), st.booleans(), st.floats(0.1, 100.0))
def test_no_step_is_limited_to_less_than_the_least(seconds, expected_s, is_compiled, least_s):
    found = limit_s(after(seconds, least_s), expected_s=expected_s, is_compiled=is_compiled)
    assert found >= least_s


@given(st.lists(SECONDS, min_size=MIN_SEEN + 1, max_size=REMEMBERED))
def test_a_step_as_long_as_any_of_the_last_is_far_from_its_limit(seconds):
    assert limit_s(after(seconds)) >= FACTOR * max(seconds[1:])


@given(SECONDS, st.lists(st.floats(0.0, 1.0), min_size=MIN_SEEN, max_size=REMEMBERED))
def test_the_first_step_of_a_shape_decides_nothing(first, others):
    assert limit_s(after([first, *others])) == limit_s(after([0.0, *others]))


@given(st.lists(st.floats(0.0, 1.0), min_size=REMEMBERED, max_size=2 * REMEMBERED))
def test_what_was_long_ago_is_forgotten(since):
    assert limit_s(after([1.0, 5000.0, *since])) <= FACTOR


@given(st.floats(0.0, 600.0))
def test_what_was_profiled_limits_the_first_steps(expected_s):
    assert limit_s(after([]), expected_s=expected_s) == max(FIRST_S, EXPECTED_FACTOR * expected_s)


def test_where_nothing_is_known_or_compiled_at_first_the_limit_is_patient():
    assert limit_s(after([])) == UNKNOWN_S
    assert limit_s(after([0.1, 0.1]), expected_s=0.1, is_compiled=True) == UNKNOWN_S
    assert limit_s(after([0.1] * 9), expected_s=0.1, is_compiled=True) == 10.0


def test_a_model_of_real_size_on_a_processor_may_take_its_minutes():
    assert limit_s(after([180.0] * 5)) == 3600.0
    assert limit_s(after([]), expected_s=180.0) == 3 * 3600.0


def test_shapes_are_told_apart():
    limits = after([0.1] * 9)
    assert limit_s(limits, "another", 0.1) == FIRST_S


def test_what_does_not_always_take_alike_is_limited_by_what_is_expected():
    """A prompt that is kept is read in no time: the next one takes a minute all the same."""
    limits = StepLimits(30.0)
    for _ in range(80):
        limits.note("reading", 0.001)
    assert limits.limit_s("reading", None, is_compiled=False) == 30.0
    unknown = limits.limit_s("reading", None, is_compiled=False, is_steady=False)
    known = limits.limit_s("reading", 60.0, is_compiled=False, is_steady=False)
    assert (unknown, known) == (UNKNOWN_S, 60 * EXPECTED_FACTOR)


def test_a_step_of_a_minute_and_more_is_no_hang():
    limits = StepLimits(2 * 15.0)
    assert limits.limit_s("step", None, is_compiled=False) >= 600.0
    assert limits.limit_s("step", 75.0, is_compiled=False) >= 600.0
    for _ in range(5):
        limits.note("step", 75.0)
    assert limits.limit_s("step", 75.0, is_compiled=False) >= 600.0
