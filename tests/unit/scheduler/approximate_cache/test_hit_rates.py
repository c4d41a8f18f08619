import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.approximate_cache.hit_rates import MEMORY, HitRates


def test_nothing_is_expected_before_anything_was_found() -> None:
    hits = HitRates(["base@10"])
    assert hits.rates() == {"base@10": 0.0}
    hits.observe("base@10", True)
    assert 0 < hits.rate("base@10") < 0.5


def test_a_level_nobody_asks_about_is_not_kept() -> None:
    hits = HitRates([])
    hits.observe("gone@10", True)
    assert hits.rates() == {}
    assert hits.rate("gone@10") == 0.0


def test_a_steady_share_is_learnt_and_a_change_noticed() -> None:
    hits = HitRates(["base@10"])
    for number in range(10 * MEMORY):
        hits.observe("base@10", number % 4 != 0)
    assert hits.rate("base@10") == pytest.approx(0.75, abs=0.05)
    for _ in range(3 * MEMORY):
        hits.observe("base@10", False)
    assert hits.rate("base@10") < 0.05


@given(st.lists(st.booleans(), max_size=300))
def test_a_rate_is_a_share_and_never_promises_more_than_was_seen(found: list[bool]) -> None:
    hits = HitRates(["base@10"])
    for is_hit in found:
        hits.observe("base@10", is_hit)
    assert 0 <= hits.rate("base@10") < 1
    if not any(found):
        assert hits.rate("base@10") == 0
