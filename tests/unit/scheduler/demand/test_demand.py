from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.boards.demand import ReportedDemand, Stream
from core.boards.plan import Usual
from scheduler.demand.demand import SHORTEST_S, joined, shares
from scheduler.placement.placer import ArrivalCounts

STREAM = Stream(application="default", models=("base",))
OTHER = Stream(application="avatars", models=("base", "tiny"))
ALIKE = Stream(application="default", models=("tiny",))


def feed(window: ArrivalCounts, rate: float, since: float, until: float) -> None:
    """Let arrivals come evenly."""
    for i in range(round((until - since) * rate)):
        window.observe(STREAM, "any", 1.0, since + i / rate)


def test_before_any_arrival_there_is_no_demand() -> None:
    assert ArrivalCounts().rates(0.0) == {}
    assert not ArrivalCounts().is_burst(0.0)
    assert ArrivalCounts().classes("default") == {}


def test_a_steady_stream_is_estimated_at_its_rate() -> None:
    window = ArrivalCounts(window_s=60.0)
    feed(window, 2.0, 0.0, 200.0)
    assert window.rates(200.0)[STREAM] == pytest.approx(2.0, rel=0.05)


def test_a_rise_is_followed_faster_than_the_window_and_a_fall_as_slowly() -> None:
    window = ArrivalCounts(window_s=60.0)
    feed(window, 1.0, 0.0, 100.0)
    feed(window, 2.0, 100.0, 120.0)
    assert window.rates(120.0)[STREAM] > 1.6  # the mean over the window is 1.33
    feed(window, 2.0, 120.0, 200.0)
    feed(window, 1.0, 200.0, 220.0)
    assert window.rates(220.0)[STREAM] == pytest.approx(100 / 60, rel=0.05)


def test_streams_of_one_application_grow_together() -> None:
    window = ArrivalCounts(window_s=60.0)
    for i in range(90):
        window.observe(ALIKE, "any", 1.0, float(i))
    feed(window, 2.0, 90.0, 100.0)
    rates = window.rates(100.0)
    assert rates[ALIKE] > 1.2 * (49 / 60)
    assert rates[ALIKE] / rates[STREAM] == pytest.approx(49 / 20, rel=0.02)


def test_a_burst_is_seen_in_seconds_and_planned_for_it_is_none() -> None:
    window = ArrivalCounts()
    feed(window, 2.0, 0.0, 60.0)
    window.note_plan(60.0)
    feed(window, 2.0, 60.0, 70.0)
    assert not window.is_burst(70.0)
    feed(window, 8.0, 70.0, 73.0)
    assert window.is_burst(73.0)
    assert window.rates(73.0)[STREAM] > 5.0
    window.note_plan(73.0)
    assert not window.is_burst(73.5)


def test_one_job_of_many_images_is_no_burst() -> None:
    window = ArrivalCounts()
    feed(window, 0.1, 0.0, 60.0)
    window.note_plan(60.0)
    window.observe(STREAM, "any", 8.0, 60.5)
    assert not window.is_burst(61.0)


def test_the_first_arrival_after_a_start_is_no_burst() -> None:
    window = ArrivalCounts()
    window.observe(STREAM, "any", 1.0, 100.0)
    assert window.rates(100.1) == {STREAM: pytest.approx(0.1, rel=0.3)}


def test_a_crowd_right_after_a_start_is_a_burst_at_its_own_rate() -> None:
    window = ArrivalCounts()
    window.note_plan(100.0)
    feed(window, 5.0, 100.0, 102.2)
    assert not window.is_burst(102.2)  # eleven jobs are few
    feed(window, 5.0, 102.2, 103.0)
    assert window.is_burst(103.0)
    assert window.rates(103.0)[STREAM] == pytest.approx(5.0, rel=0.2)
    window.note_plan(103.0)
    feed(window, 5.0, 103.0, 107.0)
    assert not window.is_burst(107.0)


def test_many_jobs_at_once_are_not_taken_for_a_rate_without_end() -> None:
    window = ArrivalCounts()
    for _ in range(40):
        window.observe(STREAM, "any", 1.0, 100.0)
    assert window.rates(100.0)[STREAM] <= 40 / SHORTEST_S * 1.2


def test_what_left_the_window_is_forgotten() -> None:
    window = ArrivalCounts(window_s=60.0)
    window.observe(STREAM, "any", 1.0, 0.0)
    window.observe(OTHER, "any", 1.0, 50.0)
    assert set(window.rates(70.0)) == {OTHER}
    assert window.rates(200.0) == {}


@given(st.lists(st.tuples(st.floats(0, 300), st.floats(0.1, 8)), max_size=60))
def test_a_forecast_is_at_least_the_work_in_the_window_over_the_time_seen(
    arrivals: list[tuple[float, float]],
) -> None:
    window = ArrivalCounts(window_s=60.0)
    for at, work in sorted(arrivals):
        window.observe(STREAM, "any", work, at)
    if not arrivals:
        return
    first = min(arrivals)[0]
    span = min(60.0, max(10.0, 300.0 - first))
    inside = sum(work for at, work in arrivals if int(at) > 240)
    assert window.rates(300.0).get(STREAM, 0.0) >= inside / span * (1 - 1e-9)
    assert window.arrived["default"] == pytest.approx(sum(work for _, work in arrivals))


def test_affinity_is_that_of_the_last_prompts() -> None:
    window = ArrivalCounts(lookback=4)
    for affinity in ("easy", "easy", "hard", "easy", "hard", "hard"):
        window.observe(STREAM, affinity, 1.0, 0.0)
    assert shares(window.classes("default")) == {"easy": 0.25, "hard": 0.75}
    assert shares(window.classes("avatars")) == {}


def test_what_schedulers_are_asked_for_adds_up() -> None:
    one = ReportedDemand(
        rates=((STREAM, 1.0),),
        classes={"default": {"easy": 3}},
        wanted={"tiny": 2.0},
        is_burst=True,
    )
    two = ReportedDemand(
        rates=((STREAM, 2.0), (OTHER, 0.5)), classes={"default": {"easy": 1, "hard": 4}}
    )
    both = joined([one, two])
    assert dict(both.rates) == {STREAM: 3.0, OTHER: 0.5}
    assert both.classes == {"default": Counter(easy=4, hard=4)}
    assert (both.wanted, both.is_burst) == ({"tiny": 2.0}, True)
    assert joined([]) == ReportedDemand()


def test_what_jobs_are_like_is_averaged_by_how_many_each_scheduler_sent() -> None:
    short, long = Usual(steps=20.0, images=1.0), Usual(steps=40.0, images=3.0)
    leader = ReportedDemand(usual={"base": (1.0, short), "idle": (0.0, short)})
    other = ReportedDemand(usual={"base": (3.0, long), "idle": (0.0, long), "tiny": (0.0, long)})
    assert joined([leader, other]).usual == {
        "base": (4.0, Usual(steps=35.0, images=2.5)),
        "idle": (0.0, short),
        "tiny": (0.0, long),
    }
    assert joined([leader]).usual == leader.usual


@pytest.mark.parametrize("back_s", [60.0, 19_000.0])
def test_a_clock_that_is_turned_back_makes_no_demand(back_s: float) -> None:
    window = ArrivalCounts(window_s=60.0)
    feed(window, 2.0, 20_000.0, 20_100.0)
    window.rates(20_100.0)
    feed(window, 2.0, 20_100.0 - back_s, 20_130.0 - back_s)
    assert 1.5 < window.rates(20_130.0 - back_s)[STREAM] < 2.2
