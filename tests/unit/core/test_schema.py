"""A version reads and first writes what the one before it does, and refuses what the next does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import NewerSchema, Unavailable
from core.schema import CHANGES, SCHEMA, Schema, Versioned

histories = st.fixed_dictionaries(
    {form: st.sets(st.integers(2, 6)).map(lambda later: (1, *sorted(later))) for form in Versioned}
)


def test_every_form_has_its_row_and_began_with_one():
    assert set(CHANGES) == set(Versioned)
    for numbers in CHANGES.values():
        assert numbers[0] == 1
        assert list(numbers) == sorted(set(numbers))


def test_a_new_version_writes_as_the_one_before_it_until_it_is_told():
    schema = Schema({Versioned.PLAN: (1, 3), Versioned.RECORD: (1, 2, 4)})
    assert schema.number == 4
    assert {form: schema.stamp(form) for form in (Versioned.PLAN, Versioned.RECORD)} == {
        Versioned.PLAN: 3,
        Versioned.RECORD: 2,
    }
    schema.in_force = 4
    assert schema.stamp(Versioned.RECORD) == 4
    assert schema.stamp(Versioned.PLAN) == 3


def test_the_first_version_writes_one():
    assert Schema({Versioned.PLAN: (1,)}).stamp(Versioned.PLAN) == 1


@given(histories, st.data())
def test_what_one_version_writes_is_read_by_the_next_and_by_the_one_before(history, data):
    newer = Schema(history)
    older = Schema(
        {
            form: tuple(n for n in numbers if n < newer.number) or (1,)
            for form, numbers in history.items()
        }
    )
    form = data.draw(st.sampled_from(Versioned))
    older.check(form, newer.stamp(form), "a thing")
    older.in_force = older.number
    newer.check(form, older.stamp(form), "a thing")


def test_what_a_newer_version_wrote_is_refused_and_asked_for_elsewhere():
    with pytest.raises(NewerSchema, match=r"plan of this service has schema 9, .* up to 1"):
        SCHEMA.check(Versioned.PLAN, 9, "this service")
    assert issubclass(NewerSchema, Unavailable)  # 503 with Retry-After: another api can read it
