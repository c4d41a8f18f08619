import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.overflow import PlacedQuality
from scheduler.planning.promises import Promises


def after(*periods: tuple[float, float], jobs: int = 100) -> float | None:
    """Promise what is expected of each period in turn, and of the last one once more."""
    promises, placed = Promises(), PlacedQuality()
    for expected, got in periods:
        promises.promise(expected)
        placed = PlacedQuality(placed.jobs + jobs, placed.quality + got * jobs)
        promises.see(placed)
    return promises.promise(periods[-1][0])


@given(expected=st.floats(0.3, 1.0), lacks=st.floats(-0.2, 0.2))
def test_what_jobs_have_lacked_all_along_is_promised_no_more(expected: float, lacks: float) -> None:
    found = after(*[(expected, expected - lacks)] * 30)
    assert found == pytest.approx(min(1.0, max(0.0, expected - lacks)), abs=1e-3)


def test_few_jobs_teach_little() -> None:
    found = after((0.9, 0.0), jobs=3)
    assert found is not None
    assert 0.88 < found < 0.9


def test_nothing_is_learnt_from_nothing() -> None:
    promises = Promises()
    promises.see(PlacedQuality(10, 1.0))
    assert promises.promise(0.9) == 0.9, "jobs that came before the first plan"
    promises.see(PlacedQuality(10, 1.0))
    assert promises.promise(None) is None
    promises.see(PlacedQuality(20, 2.0))
    assert promises.promise(0.9) == 0.9
