from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core.errors import ConfigurationError
from worker.worth import Worth, read_worth
from zoo.scorer.train import SCORER
from zoo.scorer.worth import fitted

unit = st.floats(0.0, 1.0)


@given(arrays(float, 60, elements=st.floats(10.0, 25.0)), arrays(float, 60, elements=unit))
def test_a_better_score_is_never_worth_less(scores: np.ndarray, qualities: np.ndarray) -> None:
    worth, _ = fitted(scores, qualities, bins=6)
    assert list(worth.qualities) == sorted(worth.qualities)
    assert all(0.0 <= quality <= 1.0 for quality in worth.qualities)


def test_the_curve_gives_the_mean_quality_of_images_of_alike_scores() -> None:
    rng = np.random.default_rng(0)
    scores = rng.uniform(18.0, 23.0, 5000)
    truth = 1 / (1 + np.exp(-2 * (scores - 20.5)))
    worth, explained = fitted(scores, (rng.random(5000) < truth).astype(float))
    found = [worth.quality(score) for score in (19.0, 20.5, 22.0)]
    assert found == pytest.approx([0.05, 0.5, 0.95], abs=0.05)
    assert explained > 0.5


def test_the_curve_that_ships_tells_good_images_from_bad_ones() -> None:
    worth = read_worth(SCORER)
    assert worth.quality(22.5) > 0.9
    assert worth.quality(18.0) < 0.5


def test_beyond_what_was_seen_it_stays_where_it_was() -> None:
    worth = Worth(scores=(1.0, 2.0), qualities=(0.2, 0.6))
    assert [worth.quality(score) for score in (0.0, 1.5, 9.0)] == pytest.approx([0.2, 0.4, 0.6])


def test_a_scorer_without_a_curve_is_refused_by_the_name_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"worth\.json"):
        read_worth(tmp_path)
