from hypothesis import given
from hypothesis import strategies as st

from core.boards.demand import Stream
from scheduler.demand.demand import ArrivalHistory, ArrivalSecond, added
from scheduler.placement.placer import ArrivalCounts

STREAM = Stream(application="default", models=("base",))


def test_seconds_that_are_over_are_listed_with_the_empty_ones_between() -> None:
    arrivals = ArrivalCounts()
    for at in (100.2, 100.9, 103.0):
        arrivals.observe(STREAM, "any", 1.0, at)
    assert arrivals.history(103.5) == (2.0, 0.0, 0.0)
    assert arrivals.history(105.0) == (2.0, 0.0, 0.0, 1.0, 0.0)
    arrivals.observe(STREAM, "any", 0.5, 105.1)
    assert arrivals.history(105.9) == (2.0, 0.0, 0.0, 1.0, 0.0)
    assert arrivals.history(106.0) == (2.0, 0.0, 0.0, 1.0, 0.0, 0.5)


def test_a_clock_that_is_set_back_loses_no_work() -> None:
    arrivals = ArrivalCounts()
    for at in (100.0, 103.0, 101.0, 104.0):
        arrivals.observe(STREAM, "any", 1.0, at)
    assert arrivals.history(105.0) == (1.0, 0.0, 0.0, 2.0, 1.0)


def test_a_clock_that_is_set_back_far_begins_anew() -> None:
    arrivals = ArrivalCounts()
    for at in (1000.0, 1001.0, 400.0, 401.0, 402.0):
        arrivals.observe(STREAM, "any", 1.0, at)
    assert arrivals.history(403.0) == (1.0, 1.0, 1.0)


def test_nothing_is_known_before_the_first_arrival() -> None:
    arrivals = ArrivalCounts()
    assert arrivals.history(7.0) == ()
    arrivals.observe(STREAM, "any", 1.0, 9.0)
    assert arrivals.history(9.5) == ()


def test_an_hour_is_kept_however_long_nobody_comes() -> None:
    history = ArrivalHistory(kept_s=10)
    history.add(ArrivalSecond(0, work=1.0))
    assert history.until(1e9) == (0.0,) * 9


def test_several_schedulers_saw_their_parts_of_each_second() -> None:
    assert added([(105, (1.0, 2.0)), (106, (4.0,)), (0, ())]) == (106, (1.0, 2.0, 4.0))
    assert added([]) == (0, ())


@given(st.lists(st.lists(st.integers(0, 9), max_size=20), max_size=4), st.integers(50, 90))
def test_no_work_is_lost_or_counted_twice(parts: list[list[int]], end: int) -> None:
    histories = [(end + i, tuple(map(float, part))) for i, part in enumerate(parts)]
    assert sum(added(histories)[1]) == sum(map(sum, parts))
