import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.allocation.policies.oda import shifted

amounts = st.integers(0, 9)


@st.composite
def histograms(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Draw H and F with the same sum, empty entries among them."""
    affinity = draw(st.lists(amounts, min_size=1, max_size=6))
    where = draw(
        st.lists(st.integers(0, len(affinity) - 1), min_size=sum(affinity), max_size=sum(affinity))
    )
    return affinity, [where.count(level) for level in range(len(affinity))]


@settings(max_examples=60, deadline=None)
@given(histograms())
def test_every_prompt_goes_somewhere_and_every_level_gets_its_load(
    drawn: tuple[list[int], list[int]],
) -> None:
    affinity, loads = drawn
    at = shifted(affinity, loads)
    assert [sum(row) for row in at] == pytest.approx(affinity, abs=1e-9)
    assert [sum(column) for column in zip(*at, strict=True)] == pytest.approx(loads, abs=1e-9)
    assert min(amount for row in at for amount in row) >= -1e-12


@settings(max_examples=60, deadline=None)
@given(histograms())
def test_it_is_optimal_where_quality_falls_convexly_with_speed(
    drawn: tuple[list[int], list[int]],
) -> None:
    """Against matching prompts to levels in order, which is optimal for a convex loss."""
    affinity, loads = drawn
    prompts = [level for level, n in enumerate(affinity) for _ in range(n)]
    places = [level for level, n in enumerate(loads) for _ in range(n)]
    best = sum(loss(own, level) for own, level in zip(prompts, places, strict=True))
    at = shifted(affinity, loads)
    levels = range(len(affinity))
    found = sum(at[i][j] * loss(i, j) for i, j in itertools.product(levels, levels))
    assert found == pytest.approx(best, abs=1e-9)


def loss(own: int, level: int) -> float:
    return float(max(0, level - own) ** 2)


def test_a_plan_that_fits_moves_nobody() -> None:
    assert shifted([0.5, 0.5], [0.5, 0.5]) == [[0.5, 0.0], [0.0, 0.5]]


def test_a_class_that_gives_to_both_sides_is_counted_once() -> None:
    """The paper's algorithm as printed makes this row (.6, .714, .286)."""
    at = shifted([0.2, 0.7, 0.1], [0.5, 0.2, 0.3])
    assert [amount / 0.7 for amount in at[1]] == pytest.approx([0.3 / 0.7, 0.2 / 0.7, 0.2 / 0.7])
