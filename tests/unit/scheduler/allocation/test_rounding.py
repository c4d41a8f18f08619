import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.allocation.rounding import rounded


@given(st.lists(st.floats(0.0, 50.0), min_size=1, max_size=6), st.integers(0, 60))
def test_every_type_keeps_its_workers_and_no_count_moves_by_one(
    weights: list[float], workers: int
) -> None:
    whole = sum(weights) or 1.0
    split = {("gpu", f"m{i}"): workers * weight / whole for i, weight in enumerate(weights)}
    if sum(weights) == 0:
        split["gpu", "m0"] = float(workers)
    found = rounded(split)
    assert sum(found.values()) == workers
    for slot, count in found.items():
        assert abs(count - split[slot]) < 1 + 1e-5


def test_the_largest_remainders_go_up() -> None:
    split = {("a", "x"): 1.5, ("a", "y"): 0.8, ("a", "z"): 0.7, ("b", "x"): 2.0}
    assert rounded(split) == {("a", "x"): 1, ("a", "y"): 1, ("a", "z"): 1, ("b", "x"): 2}


@pytest.mark.parametrize("almost", [2.9999999, 3.0000001])
def test_what_a_solver_calls_three_is_three(almost: float) -> None:
    assert rounded({("a", "x"): almost, ("a", "y"): 4 - almost}) == {("a", "x"): 3, ("a", "y"): 1}
