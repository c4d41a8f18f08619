from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from classifier.score_curve import Shrinkage, Worth, read_worth
from core.errors import ConfigurationError
from zoo.scorer.train import SCORER
from zoo.scorer.worth import Judged, curve, fitted

unit = st.floats(0.0, 1.0)


def some_judged(count: int, *, right: float, seed: int = 0, seen: float = 1.0) -> Judged:
    """Judge images, such a share of them right; the scorer sees some of their faults."""
    rng = np.random.default_rng(seed)
    quality = np.where(rng.random(count) < right, 1.0, 0.4)
    looks = np.where(rng.random(count) < seen, quality, 1.0)
    scores = 18.0 + 4 * looks + rng.normal(0.0, 0.5, count)
    return Judged(scores=scores, qualities=quality, levels=np.array(["base@0"] * count))


@given(arrays(float, 60, elements=st.floats(10.0, 25.0)), arrays(float, 60, elements=unit))
def test_a_better_score_is_never_worth_less(scores: np.ndarray, qualities: np.ndarray) -> None:
    grown, means = curve(scores, qualities, bins=6)
    assert (np.diff(grown) >= -1e-9).all() and (np.diff(means) >= 0).all()
    assert all(-1e-9 <= quality <= 1.0 + 1e-9 for quality in means)


def test_the_curve_gives_the_mean_quality_of_images_of_alike_scores() -> None:
    rng = np.random.default_rng(0)
    scores = rng.uniform(18.0, 23.0, 5000)
    truth = 1 / (1 + np.exp(-2 * (scores - 20.5)))
    found = np.interp((19.0, 20.5, 22.0), *curve(scores, (rng.random(5000) < truth).astype(float)))
    assert found == pytest.approx([0.05, 0.5, 0.95], abs=0.05)


@pytest.mark.parametrize("right", [0.9, 0.7, 0.3])
def test_estimates_are_right_on_average_however_many_images_are(right: float) -> None:
    """A fall of quality shows in full, though the scorer misses half of the faults."""
    worth, _ = fitted(some_judged(4000, right=0.8, seen=0.5))
    images = some_judged(4000, right=right, seen=0.5, seed=1)
    found = [worth.estimate(score, "base@0") for score in images.scores]
    assert np.mean([each.quality for each in found]) == pytest.approx(
        images.qualities.mean(), abs=0.03
    )


def test_an_estimate_says_how_far_off_it_is() -> None:
    images = some_judged(4000, right=0.8, seen=0.5)
    worth, _ = fitted(images)
    found = np.array([worth.estimate(score, "base@0").quality for score in images.scores])
    assert (found - images.qualities).var() == pytest.approx(worth.variance("base@0"), rel=0.1)


def test_levels_whose_faults_are_seen_better_have_a_line_of_their_own() -> None:
    parts = [some_judged(2000, right=0.8, seen=seen, seed=7) for seen in (0.9, 0.4)]
    both = Judged(
        scores=np.concatenate([part.scores for part in parts]),
        qualities=np.concatenate([part.qualities for part in parts]),
        levels=np.repeat(["tiny@0", "base@0"], 2000),
    )
    worth, explained = fitted(both)
    assert worth.levels["tiny@0"].slope > worth.other.slope > worth.levels["base@0"].slope
    assert worth.variance("tiny@0") < worth.variance("unknown") < worth.variance("base@0")
    assert 0.2 < explained < 1.0


def test_a_scorer_that_sees_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="does not see"):
        fitted(some_judged(2000, right=0.5, seen=0.0))


def test_the_curve_that_ships_tells_good_images_from_bad_ones() -> None:
    worth = read_worth(SCORER)
    assert worth.quality(22.5) > 0.9
    assert worth.quality(18.0) < 0.5
    assert worth.estimate(22.5, "shapes-m@0").quality > 0.9
    assert worth.estimate(18.0, "shapes-m@0").quality < 0.3


def test_beyond_what_was_seen_it_stays_where_it_was() -> None:
    line = Shrinkage(offset=0.0, slope=1.0, variance=0.0)
    worth = Worth(scores=(1.0, 2.0), qualities=(0.2, 0.6), levels={}, other=line)
    assert [worth.quality(score) for score in (0.0, 1.5, 9.0)] == pytest.approx([0.2, 0.4, 0.6])


def test_a_scorer_without_a_curve_is_refused_by_the_name_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"worth\.json"):
        read_worth(tmp_path)
