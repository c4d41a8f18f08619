from dataclasses import replace
from pathlib import Path

import pytest

from classifier.files import ClassifierFiles
from classifier.labels import Labels, Origin, read_labels
from classifier.trained import TrainedClassifier
from classifier.training.data import (
    TAUGHT,
    TESTED,
    TrainingData,
    keep_labels,
    labels_folder,
    read_shipped,
)
from classifier.training.retrain import NEW, Shipped
from classifier.training.train import train
from core.boards.classifier import SHIPPED, ClassifierVersion
from core.settings import Settings
from storage.fakes import MemoryObjects
from tests.unit.classifier.fake import FakeEncoder, some_labels
from tests.unit.classifier.training.test_retrain import easy_labels, some_scores

WEIGHTS = Origin(digests={"tiny": "d1", "base": "d2"})
SCORES = some_scores(600, parts=3)


class World:
    """A machine that retrains, its first classifier trained on these labels."""

    def __init__(self, folder: Path, labels: Labels) -> None:
        self.folder = folder
        shipped = train(replace(labels, origin=WEIGHTS), FakeEncoder(), folder / "shipped")
        self.base = TrainedClassifier(shipped, FakeEncoder())
        self.files = ClassifierFiles(MemoryObjects(), folder=folder, shipped=shipped)
        self.data = TrainingData(FakeEncoder(), self.files, Shipped())

    def publish(self, labels: Labels, base: str | None = None) -> ClassifierVersion:
        """Store a classifier of these labels, taught beside the first here or another."""
        own = self.base.card.digest
        stored = self.files.put(train(labels, FakeEncoder(), self.folder / "work"))
        return a_version(stored, own if base is None else base)


def a_version(name: str, base: str) -> ClassifierVersion:
    return ClassifierVersion(id=name, made_at=1.0, cause="", base=base)


def test_where_the_last_version_is_gone_it_goes_on_from_the_first_classifier(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, easy_labels())
    gone = a_version("gone", world.base.card.digest)
    verdict, version = world.data.retrain([gone], SCORES)
    assert (verdict.chosen, verdict.base) == (NEW, world.base.card.digest)
    assert version is not None
    card = TrainedClassifier(world.files.get(version), FakeEncoder()).card
    assert card.origin == WEIGHTS


def test_one_that_names_no_weights_is_in_force_nowhere(tmp_path: Path) -> None:
    world = World(tmp_path, easy_labels())
    nameless = world.publish(some_labels(800))
    first, _ = world.data.retrain([], SCORES)
    verdict, _ = world.data.retrain([nameless], SCORES)
    assert verdict.before == first.before


@pytest.mark.parametrize("base", ["", "other"])
def test_versions_taught_beside_another_classifier_are_not_gone_on_from(
    base: str, tmp_path: Path
) -> None:
    world = World(tmp_path, easy_labels())
    known = replace(some_labels(800), origin=WEIGHTS)
    first, _ = world.data.retrain([], SCORES)
    assert world.data.retrain([world.publish(known)], SCORES)[0].before != first.before
    verdict, version = world.data.retrain([world.publish(known, base)], SCORES)
    assert verdict.before == first.before
    assert version not in (None, SHIPPED)


def test_what_nobody_goes_back_to_is_deleted(tmp_path: Path) -> None:
    world = World(tmp_path, easy_labels())
    version = world.publish(easy_labels())
    world.data.forget([version.id])
    assert world.files._objects.objects == {}  # type: ignore[attr-defined]


def test_labels_are_read_beside_the_classifier_that_is_used(tmp_path: Path) -> None:
    own, shipped = tmp_path / "own", tmp_path / "classifier"
    settings = Settings(classifier_dir=own, models_dir=tmp_path / "models")
    keep_labels(shipped, taught=some_labels(5), tested=some_labels(2))
    assert labels_folder(settings) == shipped, "there are none beside it"
    keep_labels(own, taught=some_labels(7), tested=some_labels(3))
    assert labels_folder(settings) == own
    read = read_shipped(own)
    assert read.taught is not None and read.tested is not None
    assert (len(read.taught.prompts), len(read.tested.prompts)) == (7, 3)
    assert read_labels(own / TAUGHT).prompts == some_labels(7).prompts
    (own / TAUGHT).unlink()
    assert labels_folder(settings) == own
    (own / TESTED).unlink()
    assert labels_folder(settings) == shipped
