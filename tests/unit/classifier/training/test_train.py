from pathlib import Path

import numpy as np
import pytest

from classifier.trained import CARD, HEADS, TrainedClassifier, note_figures
from classifier.training.calibrate import calibration_error
from classifier.training.evaluate import evaluate
from classifier.training.train import MIN_PROMPTS, train
from core.errors import ConfigurationError
from tests.unit.classifier.fake import LEVELS, FakeEncoder, some_labels, truth_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier that has seen each prompt at a level or two."""
    target = tmp_path_factory.mktemp("classifier")
    return train(some_labels(1500, share=0.4), FakeEncoder(), target)


@pytest.fixture(scope="module")
def classifier(folder: Path) -> TrainedClassifier:
    return TrainedClassifier(folder, FakeEncoder())


def test_it_learns_what_each_level_is_worth_from_a_few_levels_of_each(
    classifier: TrainedClassifier,
) -> None:
    prompts = ["red star", "blue ring striped", "red ring and blue star and red star"]
    expected = classifier.expect(prompts)
    assert np.abs(expected - [truth_of(prompt) for prompt in prompts]).max() < 0.15
    affinities = [name.partition("/")[0] for name in classifier.classify(prompts)]
    assert affinities == ["tiny@0", "tiny@0", "base@20"]


def test_on_other_prompts_it_is_better_than_the_mean_and_means_what_it_says(
    classifier: TrainedClassifier,
) -> None:
    test = some_labels(400, repeats=3, seed=1)
    found = evaluate(classifier, test)
    assert found.images == 400 * 3 * len(LEVELS)
    assert found.error < 0.8 * found.naive_error
    assert found.calibration < 0.05


def test_every_class_has_a_share_and_a_quality_at_every_level(
    classifier: TrainedClassifier,
) -> None:
    known = classifier.card.classes
    assert sum(known.shares.values()) == pytest.approx(1)
    assert set(classifier.classes) == known.shares.keys() == known.quality.keys()
    for row in (*known.quality.values(), known.overall):
        assert row.keys() == set(LEVELS)
        assert all(0 <= quality <= 1 for quality in row.values())
    assert known.quality["tiny@0/1"]["tiny@0"] > 0.85


def test_equal_labels_make_equal_classifiers(tmp_path: Path) -> None:
    for name in ("one", "other"):
        train(some_labels(100), FakeEncoder(), tmp_path / name)
    one, other = (tmp_path / name / HEADS for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()


def test_a_card_tells_its_heads_from_others(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "same", "other")]
    for folder, seed in zip(folders, (0, 0, 1), strict=True):
        train(some_labels(100, seed=seed), FakeEncoder(), folder)
    one, same, other = (TrainedClassifier(each, FakeEncoder()).card.digest for each in folders)
    assert one == same != other
    assert one == note_figures(folders[0], {"test_error": 0.1}).digest


def test_progress_is_told_of_every_prompt_read_and_learned_from(tmp_path: Path) -> None:
    done: list[int] = []
    labels = some_labels(100)
    train(labels, FakeEncoder(), tmp_path, tick=done.append)
    assert sum(done) == 2 * len(set(labels.prompts))


def test_too_few_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="too few"):
        train(some_labels(MIN_PROMPTS - 1), FakeEncoder(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_classifier_for_another_encoder_is_refused(folder: Path) -> None:
    other = FakeEncoder()
    other.name = "other"  # type: ignore[misc]
    with pytest.raises(ConfigurationError, match="train-classifier"):
        TrainedClassifier(folder, other)


@pytest.mark.parametrize("name", [CARD, HEADS])
def test_half_a_classifier_is_none(name: str, tmp_path: Path) -> None:
    train(some_labels(100), FakeEncoder(), tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ConfigurationError, match=str(tmp_path)):
        TrainedClassifier(tmp_path, FakeEncoder())


def test_prompts_of_one_class_are_expected_to_do_alike(classifier: TrainedClassifier) -> None:
    prompts = some_labels(200, seed=2).prompts
    predicted, named = classifier.predict(prompts), classifier.classify(prompts)
    apart = sum(
        float(np.square(rows - rows.mean(axis=0)).sum())
        for name in set(named)
        if len(rows := predicted[[each == name for each in named]])
    )
    assert apart < 0.1 * float(np.square(predicted - predicted.mean(axis=0)).sum())


def test_what_is_calibrated_has_no_error_and_what_is_not_has() -> None:
    said = np.tile(np.array([[0.2], [0.8]], np.float32), (100, 1))
    luck = np.random.default_rng(0).random((200, 1))
    came = (luck < said).astype(np.float32)
    ones = np.ones_like(said)
    assert calibration_error(said, came, ones) < 0.12
    assert calibration_error(np.full_like(said, 0.9), came, ones) > 0.3
