from hypothesis import given
from hypothesis import strategies as st

from worker.engine.row_caps import RowCaps


def test_a_cap_is_halved_and_grows_back_by_one_row_after_a_while():
    caps = RowCaps(16, patience=3)
    caps.halve(("a",), 16)
    assert caps.rows(("a",)) == 8
    for _ in range(3):
        caps.grow(("a",), 8)
    assert caps.rows(("a",)) == 9
    assert caps.rows(("b",)) == 16


def test_every_row_that_a_cap_regains_takes_as_long():
    caps = RowCaps(16, patience=3)
    caps.halve(("a",), 16)
    rows = []
    for _ in range(7):
        caps.grow(("a",), caps.rows(("a",)))
        rows.append(caps.rows(("a",)))
    assert rows == [8, 8, 9, 9, 9, 10, 10]


def test_a_batch_well_below_the_cap_does_not_raise_it():
    caps = RowCaps(16, patience=1)
    caps.halve(("a",), 16)
    for rows in (4, 6):
        caps.grow(("a",), rows)
    assert caps.rows(("a",)) == 8


@given(st.integers(1, 16), st.lists(st.booleans(), max_size=60))
def test_a_cap_stays_between_one_row_and_the_setting(limit, events):
    caps = RowCaps(limit, patience=1)
    for did_fit in events:
        rows = caps.rows(("a",))
        (caps.grow if did_fit else caps.halve)(("a",), rows)
        assert 1 <= caps.rows(("a",)) <= limit


def test_the_batch_that_did_not_fit_sets_the_cap_and_not_the_cap_before():
    caps = RowCaps(16)
    caps.halve(("a",), 6)
    assert caps.rows(("a",)) == 3


def test_batches_of_two_rows_an_image_raise_an_odd_cap_that_they_cannot_fill():
    caps = RowCaps(16, patience=1)
    caps.halve(("a",), 10)
    assert caps.rows(("a",)) == 5
    caps.grow(("a",), 4)
    assert caps.rows(("a",)) == 6


def test_fifty_good_steps_are_enough_to_try_one_more_row():
    caps = RowCaps(16)
    caps.halve(("a",), 16)
    rows = []
    for _ in range(50):
        caps.grow(("a",), 8)
        rows.append(caps.rows(("a",)))
    assert rows == [8] * 49 + [9]
