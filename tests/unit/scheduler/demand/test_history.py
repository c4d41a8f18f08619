from hypothesis import given
from hypothesis import strategies as st

from scheduler.demand.demand import ArrivalHistory, added


def test_seconds_that_are_over_are_listed_with_the_empty_ones_between() -> None:
    history = ArrivalHistory()
    for at in (100.2, 100.9, 103.0):
        history.observe(1.0, at)
    assert history.until(103.5) == (2.0, 0.0, 0.0)
    assert history.until(105.0) == (2.0, 0.0, 0.0, 1.0, 0.0)


def test_nothing_is_known_before_the_first_arrival() -> None:
    assert ArrivalHistory().until(7.0) == ()


def test_an_hour_is_kept_however_long_nobody_comes() -> None:
    history = ArrivalHistory(kept_s=10)
    history.observe(1.0, 0.0)
    assert history.until(1e9) == (0.0,) * 9


def test_several_schedulers_saw_their_parts_of_each_second() -> None:
    assert added([(105, (1.0, 2.0)), (106, (4.0,)), (0, ())]) == (106, (1.0, 2.0, 4.0))
    assert added([]) == (0, ())


@given(st.lists(st.lists(st.integers(0, 9), max_size=20), max_size=4), st.integers(50, 90))
def test_no_work_is_lost_or_counted_twice(parts: list[list[int]], end: int) -> None:
    histories = [(end + i, tuple(map(float, part))) for i, part in enumerate(parts)]
    assert sum(added(histories)[1]) == sum(map(sum, parts))
