import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.cells.capacity import CellCapacity, Segment
from router.plan import MOVED, plan_shares, value

NAMES = ("a", "b", "c", "d")


@st.composite
def capacities(draw):
    worths = sorted(draw(st.lists(st.floats(0, 1), min_size=1, max_size=4)), reverse=True)
    rates = [draw(st.floats(0.1, 20)) for _ in worths]
    segments = tuple(Segment(rate=r, worth=w) for r, w in zip(rates, worths, strict=True))
    return CellCapacity(segments=segments, demand=0.0)


cells = st.fixed_dictionaries({name: capacities() for name in NAMES})
demands = st.fixed_dictionaries({name: st.floats(0, 40) for name in NAMES})


def rows_of(shares, demand):
    return {home: {c: demand[home] * s for c, s in row.items()} for home, row in shares.items()}


@given(cells, demands)
def test_every_job_goes_somewhere(of, demand):
    for row in plan_shares(of, demand).values():
        assert sum(row.values()) == pytest.approx(1.0)
        assert min(row.values()) >= -1e-9


@given(cells, demands)
def test_no_job_could_move_for_more_than_leaving_home_costs(of, demand):
    rows = rows_of(plan_shares(of, demand), demand)
    best, slice_ = value(of, rows), 0.01
    for home in NAMES:
        for cell in NAMES:
            if cell != home and rows[home][home] > slice_:
                moved = {name: dict(row) for name, row in rows.items()}
                moved[home][home] -= slice_
                moved[home][cell] = moved[home].get(cell, 0.0) + slice_
                assert value(of, moved) <= best + 1e-6


@given(cells, demands)
def test_it_is_worth_at_least_what_staying_at_home_is(of, demand):
    stay = {name: {name: rate} for name, rate in demand.items()}
    assert value(of, rows_of(plan_shares(of, demand), demand)) >= value(of, stay) - 1e-6


def cell(*segments):
    return CellCapacity(segments=tuple(Segment(rate=r, worth=w) for r, w in segments), demand=0.0)


def test_what_a_home_can_serve_stays_there():
    of = {"a": cell((10, 0.9)), "b": cell((10, 0.9))}
    assert plan_shares(of, {"a": 9.0, "b": 1.0}) == {"a": {"a": 1.0}, "b": {"b": 1.0}}


def test_what_a_home_cannot_serve_goes_where_there_is_room():
    of = {"a": cell((10, 0.9)), "b": cell((10, 0.9)), "c": cell((10, 0.8))}
    shares = plan_shares(of, {"a": 25.0, "b": 4.0, "c": 0.0})
    assert shares["a"] == pytest.approx({"a": 10 / 25, "b": 6 / 25, "c": 9 / 25})


def test_jobs_leave_low_levels_only_for_more_than_leaving_costs():
    near, far = 0.5 + MOVED / 2, 0.5 + 2 * MOVED
    of = {"a": cell((5, 0.9), (10, 0.5)), "b": cell((10, near))}
    assert plan_shares(of, {"a": 8.0})["a"] == {"a": 1.0}
    of["b"] = cell((10, far))
    assert plan_shares(of, {"a": 8.0})["a"] == pytest.approx({"a": 5 / 8, "b": 3 / 8})


def test_a_home_of_which_nothing_is_known_keeps_its_jobs():
    assert plan_shares({"b": cell((10, 0.9))}, {"a": 5.0}) == {"a": {"a": 1.0}}
