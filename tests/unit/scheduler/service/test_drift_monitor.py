import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from classifier.trained import CARD, TrainedClassifier
from classifier.training.train import train
from core.boards.classifier import ClassifierVersion
from core.boards.score import Score
from core.errors import ConfigurationError, ObjectMissing
from core.settings import Settings
from scheduler.metrics import Metrics
from scheduler.planning.protocols import Successor
from scheduler.routing.classify import Classifier, InForce, OneClass
from scheduler.service.drift import DriftDetector, DriftLimits
from scheduler.service.drift_monitor import REVIEWS, DriftMonitor, open_drift_monitor, residuals
from storage.fakes import MemoryClassifiers, MemoryScores
from storage.redis.connect import connect
from tests.unit.classifier.fake import LEVELS, FakeEncoder, some_labels
from tests.unit.scheduler.fakes import a_model, a_profile

LIMITS = DriftLimits(batch=2, window=5, margin=0.1, cooldown=1)
PROMPT = "red star"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("classifier")
    return train(some_labels(100), FakeEncoder(), target)


class World:
    """A scheduler that leads, and the images that others make."""

    def __init__(self, folder: Path) -> None:
        self.fetched, self.leads = folder, True
        self.classifier = TrainedClassifier(folder, FakeEncoder())
        self.scores, self.board, self.metrics = MemoryScores(), MemoryClassifiers(), Metrics()
        self.adopted: list[TrainedClassifier] = []
        self.monitor = DriftMonitor(
            self.classifier,
            DriftDetector(LIMITS),
            scores=self.scores,
            board=self.board,
            files=SimpleNamespace(get=lambda version: self.fetched),  # type: ignore[arg-type]
            encoder=FakeEncoder(),
            adopt=self.adopted.append,
            leads=lambda: self.leads,
            metrics=self.metrics,
        )

    async def score(self, count: int, off: float = 0.0) -> None:
        """Have images made that are so far from what the classifier predicts, and look at them."""
        quality = float(self.classifier.expect([PROMPT])[0, 0]) + off
        score = Score(job="", prompt=PROMPT, level=LEVELS[0], quality=quality)
        await self.scores.add([score] * count)
        await self.monitor.round()


def a_version(world: World, name: str, base: str | None = None) -> ClassifierVersion:
    """Publish what was taught beside the classifier here, or another."""
    own = world.classifier.card.digest
    return ClassifierVersion(
        id=name, made_at=1.0, cause="quality fell", base=own if base is None else base
    )


@pytest.fixture
async def world(folder: Path) -> World:
    world = World(folder)
    await world.monitor.round()
    return world


async def test_quality_below_what_was_predicted_has_the_classifier_trained_anew(
    world: World,
) -> None:
    await world.score(30)
    assert await world.board.wanted() is None
    await world.score(10, off=-0.3)
    assert "0.300 below" in str(await world.board.wanted())
    assert b"atelier_drifts_total 1.0" in world.metrics.render()


async def test_scores_from_before_it_led_are_not_its_business(folder: Path) -> None:
    world = World(folder)
    await world.score(30)
    world.leads = False
    await world.score(30, off=-0.3)
    world.leads = True
    await world.monitor.round()
    await world.score(30)
    assert await world.board.wanted() is None


async def test_a_published_classifier_is_adopted_once_and_learns_its_own_normal(
    world: World,
) -> None:
    await world.score(30)
    await world.board.publish(a_version(world, "new"))
    await world.score(30, off=-0.3)
    await world.monitor.round()
    assert len(world.adopted) == 1
    assert await world.board.wanted() is None, "below the other one's normal, not its own"


async def test_a_new_classifier_is_looked_at_again_each_time_twice_as_much_is_known(
    world: World,
) -> None:
    await world.board.publish(a_version(world, "new"))
    looked_at = []
    for scored in range(100, REVIEWS[-1] + 500, 100):
        await world.score(100)
        if cause := await world.board.wanted():
            looked_at.append(scored)
            assert str(scored) in cause
            await world.board.settle()
    assert looked_at == list(REVIEWS), "and then no more"


async def test_one_that_cannot_be_used_leaves_the_old_one_in_force_and_watched(
    world: World, tmp_path: Path
) -> None:
    folder, world.fetched = world.fetched, tmp_path
    await world.board.publish(a_version(world, "broken"))
    await world.score(30)
    assert world.adopted == []
    await world.score(10, off=-0.3)
    assert "0.300 below" in str(await world.board.wanted())
    world.fetched = folder
    await world.monitor.round()
    assert world.adopted == [], "it is not tried again and again"
    await world.board.publish(a_version(world, "mended"))
    await world.monitor.round()
    assert len(world.adopted) == 1


@pytest.mark.parametrize("error", [ObjectMissing("gone"), ConfigurationError("of other weights")])
async def test_one_that_is_gone_or_of_other_weights_is_told_once(
    world: World, error: Exception
) -> None:
    def fail(whatever: object) -> None:
        raise error

    world.monitor._adopt = fail
    await world.board.publish(a_version(world, "refused"))
    with capture_logs() as logs:
        for _ in range(3):
            await world.monitor.round()
    told = [each["version"] for each in logs if each["event"] == "classifier_not_used"]
    assert told == ["refused"]


async def test_a_classifier_that_was_trained_by_hand_outlasts_those_taught_beside_another(
    world: World,
) -> None:
    await world.board.publish(a_version(world, "of an older release", base=""))
    await world.board.publish(a_version(world, "other", base="other"))
    await world.monitor.round()
    assert world.adopted == []
    await world.board.publish(a_version(world, "own"))
    await world.board.publish(a_version(world, "late", base="other"))
    await world.monitor.round()
    assert (len(world.adopted), world.monitor._version) == (1, "own")


async def test_what_an_older_release_published_is_adopted_beside_its_classifier(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    card = json.loads((tmp_path / CARD).read_text())
    del card["digest"]
    (tmp_path / CARD).write_text(json.dumps(card))
    world = World(tmp_path)
    await world.board.publish(ClassifierVersion(id="old", made_at=1.0, cause=""))
    await world.monitor.round()
    assert len(world.adopted) == 1


def test_a_residual_is_what_came_less_what_was_predicted_at_that_level(folder: Path) -> None:
    classifier = TrainedClassifier(folder, FakeEncoder())
    scores = [
        Score(job="", prompt=PROMPT, level=level, quality=0.5) for level in (*LEVELS, "other@0")
    ]
    expected = classifier.expect([PROMPT])[0]
    assert residuals(classifier, scores) == pytest.approx(np.subtract(0.5, expected))
    assert residuals(classifier, []) == []


class FakeLoop:
    """Takes note of what it is to plan for."""

    is_leader = True

    def __init__(self) -> None:
        self.successors: list[Successor] = []

    def adopt(self, successor: Successor) -> None:
        self.successors.append(successor)


def opened(classifier: Classifier, loop: FakeLoop, secret: str = "s" * 32) -> DriftMonitor | None:
    return open_drift_monitor(
        Settings(url_secret=SecretStr(secret)),
        connect("redis://127.0.0.1:1/0"),
        Metrics(),
        in_force=InForce(classifier),
        encoder=FakeEncoder,
        profile=a_profile(a_model("tiny"), a_model("base")),
        loop=loop,  # type: ignore[arg-type]
    )


async def test_a_classifier_of_the_models_that_are_served_is_handed_to_the_loop(
    folder: Path,
) -> None:
    classifier, loop = TrainedClassifier(folder, FakeEncoder()), FakeLoop()
    monitor = opened(classifier, loop)
    assert monitor is not None
    other = TrainedClassifier(folder, FakeEncoder())
    monitor._adopt(other)
    (successor,) = loop.successors
    assert successor.classes == other.classes
    assert successor.profile.shares == other.card.classes.shares


async def test_without_a_trained_classifier_there_is_nothing_to_watch() -> None:
    assert opened(OneClass(), FakeLoop()) is None


async def test_where_no_other_could_be_fetched_the_one_at_hand_goes_on(folder: Path) -> None:
    assert opened(TrainedClassifier(folder, FakeEncoder()), FakeLoop(), secret="") is None
