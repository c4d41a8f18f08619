import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.demand import ArrivalWindow, Stream

STREAM = Stream(application="default", models=("base",))
OTHER = Stream(application="avatars", models=("base", "tiny"))


def test_before_any_arrival_there_is_no_demand() -> None:
    assert ArrivalWindow().rates(0.0) == {}
    assert ArrivalWindow().affinity("default") == {}


def test_a_steady_stream_is_estimated_at_its_rate() -> None:
    window = ArrivalWindow(window_s=60.0)
    for i in range(400):
        window.observe(STREAM, "any", 1.0, i * 0.5)
    assert window.rates(200.0)[STREAM] == pytest.approx(2.0, rel=0.05)


def test_the_first_arrival_after_a_start_is_no_burst() -> None:
    window = ArrivalWindow(min_span_s=10.0)
    window.observe(STREAM, "any", 1.0, 100.0)
    assert window.rates(100.1) == {STREAM: pytest.approx(0.1)}


def test_what_left_the_window_is_forgotten() -> None:
    window = ArrivalWindow(window_s=60.0)
    window.observe(STREAM, "any", 1.0, 0.0)
    window.observe(OTHER, "any", 1.0, 50.0)
    assert set(window.rates(70.0)) == {OTHER}
    assert window.rates(200.0) == {}


@given(st.lists(st.tuples(st.floats(0, 300), st.floats(0.1, 8)), max_size=60))
def test_a_rate_is_the_work_in_the_window_over_the_time_seen(
    arrivals: list[tuple[float, float]],
) -> None:
    window = ArrivalWindow(window_s=60.0, min_span_s=10.0)
    for at, work in sorted(arrivals):
        window.observe(STREAM, "any", work, at)
    if not arrivals:
        return
    first = min(arrivals)[0]
    span = min(60.0, max(10.0, 300.0 - first))
    inside = sum(work for at, work in arrivals if int(at) > 240)
    assert window.rates(300.0).get(STREAM, 0.0) == pytest.approx(inside / span)


def test_affinity_is_that_of_the_last_prompts() -> None:
    window = ArrivalWindow(lookback=4)
    for affinity in ("easy", "easy", "hard", "easy", "hard", "hard"):
        window.observe(STREAM, affinity, 1.0, 0.0)
    assert window.affinity("default") == {"easy": 0.25, "hard": 0.75}
    assert window.affinity("avatars") == {}
