import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.planning.demand_aggregation import ForecastError


def test_nothing_is_judged_before_a_second_forecast() -> None:
    hindsight = ForecastError()
    hindsight.judge({"a": 1.0}, {"a": 5.0}, 10.0)
    assert (hindsight.error, hindsight.missed) == (0.0, 0.0)


def test_what_was_missed_and_what_did_not_come_are_errors() -> None:
    hindsight = ForecastError()
    hindsight.judge({"a": 1.0, "b": 2.0}, {}, 0.0)
    hindsight.judge({}, {"a": 14.0, "b": 16.0}, 10.0)
    assert hindsight.error == pytest.approx((4 + 4) / 30)
    assert hindsight.missed == pytest.approx(4 / 30)


def test_old_forecasts_are_forgotten() -> None:
    hindsight = ForecastError()
    hindsight.judge({"a": 0.0}, {"a": 0.0}, 0.0)
    for i in range(1, 200):
        hindsight.judge({"a": 1.0}, {"a": float(i)}, float(i))
    assert hindsight.error < 1e-3


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), max_size=20))
def test_no_more_is_missed_than_came(rounds: list[tuple[float, float]]) -> None:
    hindsight, arrived = ForecastError(), 0.0
    for i, (expected, came) in enumerate(rounds):
        arrived += came
        hindsight.judge({"a": expected}, {"a": arrived}, float(i))
    assert 0.0 <= hindsight.missed <= min(1.0 + 1e-9, hindsight.error + 1e-9)
