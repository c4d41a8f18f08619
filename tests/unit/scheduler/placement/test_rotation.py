from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.rotation import Rotation


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcdefgh"))), st.integers(1, 9))
def test_all_names_that_are_there_are_taken_in_turn(
    changes: Sequence[tuple[bool, str]], most: int
) -> None:
    rotation, there = Rotation(), set[str]()
    for is_there, name in changes:
        if is_there:
            rotation.add(name)
            there.add(name)
        else:
            rotation.remove(name)
            there.discard(name)
        assert len(rotation) == len(there)
        taken = rotation.take(most)
        assert len(set(taken)) == len(taken) == min(most, len(there))
    assert all((name in rotation) == (name in there) for name in "abcdefgh")
    rounds = -(-len(there) // most)
    assert {name for _ in range(rounds) for name in rotation.take(most)} == there
