import math

import numpy as np
import pytest

from core.levels.approximation import SKIPS
from zoo.quality.threshold import MIN_PAIRS, Pairs, fit, joined, kept


def pairs(similarity: list[float], resumed: list[float]) -> Pairs:
    column = np.array(resumed)
    return Pairs(
        similarity=np.array(similarity),
        whole=np.ones(len(similarity)),
        resumed=dict.fromkeys(SKIPS, column),
    )


def test_the_threshold_lies_where_quality_falls() -> None:
    alike = [i / 200 + 0.5 for i in range(100)]
    found = pairs(alike, [1.0 if s >= 0.8 else 0.2 for s in alike])
    least = fit(found, 25)
    assert least is not None
    assert 0.75 < least <= 0.8
    assert kept(found, 25, least) >= 0.9 > kept(found, 25, least - 0.02)


def test_quality_that_never_falls_needs_no_more_than_was_measured() -> None:
    assert fit(pairs([0.5 + i / 100 for i in range(50)], [1.0] * 50), 5) == 0.5


def test_quality_that_always_falls_has_no_threshold() -> None:
    assert fit(pairs([0.9] * 50, [0.1] * 50), 25) is None


def test_a_few_pairs_say_nothing() -> None:
    few = pairs([0.99] * (MIN_PAIRS - 1), [0.0] * (MIN_PAIRS - 1))
    assert math.isnan(kept(few, 25, 0.9))
    many = joined([few, pairs([0.6] * 100, [1.0] * 100)])
    assert fit(many, 25) is None
    assert kept(many, 25, 0.5) == pytest.approx(100 / (100 + MIN_PAIRS - 1))
