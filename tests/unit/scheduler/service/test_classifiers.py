import dataclasses
from pathlib import Path

import pytest

from classifier.labels import Origin
from classifier.training.train import train
from core.errors import ConfigurationError
from core.levels.approximation import skipping
from core.levels.level import Level
from core.settings import Settings
from scheduler.profile.profile import Profile
from scheduler.profile.profile_file import About, LevelFamily, Measured
from scheduler.routing.classify import ANY
from scheduler.service.classifiers import open_classifier
from tests.unit.classifier.fake import FakeEncoder, some_labels
from tests.unit.scheduler.fakes import a_model

DIGESTS = {"tiny": "t", "base": "b"}
PROFILE = Profile(
    models={name: a_model(name) for name in DIGESTS},
    measured=Measured(about=About(digests=DIGESTS)),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    labels = dataclasses.replace(some_labels(200), origin=Origin(digests=DIGESTS))
    target = tmp_path_factory.mktemp("models") / "classifier"
    return train(labels, FakeEncoder(), target)


def test_a_classifier_of_these_models_tells_the_profile_its_classes(folder: Path) -> None:
    settings = Settings(models_dir=folder.parent / "weights")
    classifier, profile = open_classifier(settings, PROFILE, FakeEncoder)
    fast = Level(model="tiny")
    assert profile.quality("tiny@0/1", fast) > profile.quality(ANY, fast)
    assert sum(profile.prior(classifier.classes).values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("digests", "models", "reason"),
    [
        ({"tiny": "t", "base": "other"}, ("tiny", "base"), "base"),
        ({"tiny": "t"}, ("tiny", "base"), "base"),
        (DIGESTS, ("tiny",), "base"),
    ],
    ids=["other weights", "never measured", "not served"],
)
def test_a_classifier_of_other_models_is_not_used_unless_it_was_named(
    folder: Path, digests: dict[str, str], models: tuple[str, ...], reason: str
) -> None:
    profile = Profile(
        models={name: a_model(name) for name in models},
        measured=Measured(about=About(digests=digests)),
    )
    settings = Settings(models_dir=folder.parent / "weights")
    assert open_classifier(settings, profile, FakeEncoder)[0].classes == (ANY,)
    with pytest.raises(ConfigurationError, match=f"ATELIER_CLASSIFIER_DIR: .*{reason}"):
        open_classifier(Settings(classifier_dir=folder), profile, FakeEncoder)


def test_a_class_loses_as_much_by_skipped_steps_as_all_prompts_do(folder: Path) -> None:
    of_all = {"tiny@0": 0.8, "tiny@5": 0.6, "base@0": 1.0}
    every = LevelFamily(levels=tuple(of_all), shares={"base@0": 1.0}, quality={ANY: of_all})
    measured = dataclasses.replace(PROFILE.measured, families={"all": every})
    measuring = dataclasses.replace(PROFILE, measured=measured)
    _, profile = open_classifier(Settings(classifier_dir=folder), measuring, FakeEncoder)
    profile = dataclasses.replace(profile, can_resume=True)
    easy, whole = "tiny@0/1", profile.quality("tiny@0/1", Level(model="tiny"))
    skipped = profile.quality(easy, Level(model="tiny", approximation=skipping(5)))
    assert skipped == pytest.approx(whole * 0.6 / 0.8)
