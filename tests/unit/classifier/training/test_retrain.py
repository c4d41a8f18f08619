from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.labels import Labels, Origin
from classifier.trained import TrainedClassifier
from classifier.training.learned import (
    COMMON,
    LUCK,
    MIN_JUDGES,
    RECENT,
    Errors,
    is_better,
    is_held_out,
    joined,
    lessons_of,
    weight_of,
)
from classifier.training.retrain import NEW, Shipped, retrain
from classifier.training.train import train
from core.boards.score import Score
from tests.unit.classifier.fake import LEVELS, WORDS, FakeEncoder, some_labels, truth_of

EASY = "red star"


def some_scores(count: int, parts: int, variance: float = 0.0) -> list[Score]:
    """Score images of prompts of so many parts: all at the fastest level, but for a few."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(count):
        prompt = " and ".join(" ".join(rng.choice(WORDS[:4], 2)) for _ in range(parts))
        level = int(rng.choice(len(LEVELS), p=[0.8, 0.1, 0.1]))
        quality = truth_of(prompt)[level] + rng.normal(0, 0.05)
        found.append(
            Score(
                job=str(number),
                prompt=prompt,
                level=LEVELS[level],
                quality=float(quality),
                variance=variance,
            )
        )
    return found


def easy_labels() -> Labels:
    labels = some_labels(800, seed=2)
    return labels.chosen([i for i, p in enumerate(labels.prompts) if "and" not in p])


@pytest.fixture(scope="module")
def naive(tmp_path_factory: pytest.TempPathFactory) -> TrainedClassifier:
    """A classifier that has seen easy prompts only."""
    folder = train(easy_labels(), FakeEncoder(), tmp_path_factory.mktemp("naive"))
    return TrainedClassifier(folder, FakeEncoder())


def test_prompts_that_judge_never_teach() -> None:
    scores = [
        Score(job="", prompt=f"prompt {i}", level=LEVELS[i % 3], quality=0.5) for i in range(400)
    ]
    lessons = lessons_of(scores, LEVELS)
    assert lessons.images == len(lessons.taught.prompts)
    assert not set(lessons.taught.prompts) & set(lessons.judges.prompts)
    assert all(map(is_held_out, lessons.judges.prompts))
    assert lessons.taught.counts.sum() + lessons.judges.counts.sum() == 400
    assert 60 < lessons.judges.counts.sum() < 140


def test_only_what_was_scored_lately_judges() -> None:
    held_out = next(p for p in (f"prompt {i}" for i in range(100)) if is_held_out(p))
    old = Score(job="", prompt=held_out, level=LEVELS[0], quality=0.0)
    new = [Score(job="", prompt=EASY, level=LEVELS[0], quality=1.0)] * RECENT
    assert held_out not in lessons_of([old, *new], LEVELS).judges.prompts


def test_levels_that_the_classifier_does_not_know_are_left_out() -> None:
    score = Score(job="", prompt=EASY, level="other@0", quality=0.5)
    assert lessons_of([score], LEVELS).taught.prompts == ()


def test_tables_are_joined_by_the_names_of_their_levels() -> None:
    shipped = some_labels(20, repeats=2)
    scored = lessons_of(some_scores(60, 1), LEVELS[::-1]).taught
    whole = joined(shipped, scored)
    assert whole.levels == shipped.levels
    added = whole.chosen(range(20, 20 + len(scored.prompts)))
    assert added.prompts == scored.prompts
    assert added.mean[:, ::-1] == pytest.approx(scored.mean)
    assert added.weights[:, ::-1] == pytest.approx(scored.weights)


@given(st.integers(1, 500), st.floats(0.0, 1.0))
def test_no_number_of_estimates_tells_more_than_what_the_scorer_can_read(
    images: int, variance: float
) -> None:
    assert weight_of(images, 0.0) == pytest.approx(images)
    assert weight_of(images, variance) <= weight_of(images + 1, variance)
    assert weight_of(images, variance) * COMMON * variance <= LUCK + 1e-9


def test_images_of_one_prompt_and_level_are_one_label() -> None:
    scores = [
        Score(job="", prompt=EASY, level=LEVELS[0], quality=quality, variance=0.1)
        for quality in (1.5, 0.5, 0.4)
    ]
    labels = lessons_of(scores, LEVELS).taught
    assert (labels.prompts, labels.quality.shape) == ((EASY,), (1, len(LEVELS), 1))
    assert labels.mean[0] == pytest.approx([0.8, 0.0, 0.0])
    assert labels.weights[0] == pytest.approx([weight_of(3, 0.1), 0.0, 0.0])


def test_images_made_for_others_teach_what_the_labels_did_not(
    naive: TrainedClassifier, tmp_path: Path
) -> None:
    shipped = Shipped(taught=easy_labels(), tested=some_labels(50, seed=3))
    scores = some_scores(600, parts=3)
    verdict = retrain(naive, {}, scores, shipped, encoder=FakeEncoder(), folder=tmp_path)
    assert verdict.chosen == NEW
    assert verdict.before and verdict.after and verdict.after.recent < verdict.before.recent / 2
    prompt = "red ring and blue star and red ring"
    expected = TrainedClassifier(tmp_path, FakeEncoder()).expect([prompt])[0, 0]
    assert expected == pytest.approx(truth_of(prompt)[0], abs=0.15)


def test_an_earlier_classifier_that_is_better_again_is_gone_back_to(
    naive: TrainedClassifier, tmp_path: Path
) -> None:
    """The one in force learned nonsense, and so does the new one: scores tell next to nothing."""
    wrong = easy_labels()
    wrong = replace(wrong, quality=1 - wrong.quality)
    folder = train(wrong, FakeEncoder(), tmp_path / "wrong")
    current = TrainedClassifier(folder, FakeEncoder())
    scores = some_scores(300, parts=2, variance=5.0)
    verdict = retrain(
        current,
        {"before": naive},
        scores,
        Shipped(taught=wrong),
        encoder=FakeEncoder(),
        folder=tmp_path,
    )
    assert verdict.chosen == "before"


def test_one_that_does_not_know_what_all_judges_are_at_is_not_chosen(
    naive: TrainedClassifier, tmp_path: Path
) -> None:
    """At the level that it knows it is far better, and at the others it is not asked."""
    shipped = Shipped(taught=easy_labels().at([0]))
    scores = some_scores(600, parts=3)
    verdict = retrain(naive, {}, scores, shipped, encoder=FakeEncoder(), folder=tmp_path)
    assert TrainedClassifier(tmp_path, FakeEncoder()).levels == LEVELS[:1]
    assert (verdict.chosen, verdict.after) == (None, None)
    assert "none knows all levels" in verdict.reason


def test_without_labels_beside_it_a_classifier_names_the_weights_of_the_last(
    tmp_path: Path,
) -> None:
    origin = Origin(digests={"tiny": "d1", "base": "d2"})
    first = train(replace(easy_labels(), origin=origin), FakeEncoder(), tmp_path / "first")
    current = TrainedClassifier(first, FakeEncoder())
    scores = some_scores(600, parts=3)
    retrain(current, {}, scores, Shipped(), encoder=FakeEncoder(), folder=tmp_path)
    assert TrainedClassifier(tmp_path, FakeEncoder()).card.origin == origin


def test_with_too_few_to_judge_by_all_stays_as_it_is(
    naive: TrainedClassifier, tmp_path: Path
) -> None:
    scores = some_scores(MIN_JUDGES - 1, parts=2)
    verdict = retrain(naive, {}, scores, Shipped(), encoder=FakeEncoder(), folder=tmp_path)
    assert verdict.chosen is None
    assert "too few" in verdict.reason


errors = st.builds(Errors, recent=st.floats(0.0, 1.0), shipped=st.floats(0.0, 1.0))


@given(errors, errors)
def test_of_two_classifiers_at_most_one_is_better(one: Errors, other: Errors) -> None:
    assert not (is_better(one, other) and is_better(other, one))
    assert not is_better(one, one)
