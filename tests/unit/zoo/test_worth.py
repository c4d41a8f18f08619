from pathlib import Path

import pytest

from core.errors import ConfigurationError
from scheduler.measured import Judged, Measured, read_measured
from worker.worth import Worth, read_worth
from zoo.scorer.train import SCORER
from zoo.scorer.worth import fitted

PROFILE = Path(__file__).parents[3] / "zoo" / "profile.json"


def judged(scorer: float | None, quality: float) -> Judged:
    return Judged(strict=0.0, share=0.0, quality=quality, scorer=scorer)


def test_a_line_goes_through_what_both_have_judged() -> None:
    measured = Measured(
        judged={"a@0": judged(18.0, 0.5), "b@0": judged(20.0, 0.7), "c@0": judged(None, 0.1)}
    )
    worth, explained = fitted(measured)
    assert (worth.quality(18.0), worth.quality(19.0)) == pytest.approx((0.5, 0.6))
    assert explained == pytest.approx(1.0)


def test_a_profile_without_a_scorer_has_no_line() -> None:
    with pytest.raises(ValueError, match="measure it with the scorer"):
        fitted(Measured(judged={"a@0": judged(None, 0.5)}))


def test_no_score_is_worth_less_than_nothing_or_more_than_all() -> None:
    worth = Worth(slope=0.1, offset=-1.0)
    assert (worth.quality(5.0), worth.quality(30.0)) == (0.0, 1.0)


def test_the_line_that_ships_is_that_of_the_profile_that_ships() -> None:
    worth, explained = fitted(read_measured(PROFILE))
    assert read_worth(SCORER) == worth
    assert explained > 0.9


def test_a_scorer_without_a_line_is_refused_by_the_name_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"worth\.json"):
        read_worth(tmp_path)
