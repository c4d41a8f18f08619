"""Drift monitor: read scores, request retraining, load new classifiers.

What the scheduler does about drift (docs/adr/0013), beside the requests. Detection is
`scheduler.service.drift`; retraining is a task of the CPU workers; a new classifier is loaded here
while the old one answers, and takes force with the next plan.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from redis.asyncio import Redis

from classifier.encoder.encoder import SentenceEncoder
from classifier.files import ClassifierFiles, open_files
from classifier.trained import TrainedClassifier
from core.boards.classifier import SHIPPED, ClassifierVersion, taught_from
from core.boards.score import Score
from core.errors import AtelierError, ConfigurationError, ObjectMissing
from core.log import get_logger, log_errors
from core.settings import Settings
from scheduler.metrics import Metrics
from scheduler.planning.loop import PlanLoop
from scheduler.planning.protocols import Successor
from scheduler.profile.profile import Profile
from scheduler.routing.classify import InForce
from scheduler.service.classifiers import refuse_other_models
from scheduler.service.drift import DriftDetector
from storage.boards.classifiers import ClassifierBoard, Classifiers
from storage.boards.scores import Scores, ScoreStream

POLL_S = 2.0
PAGE = 200  #: scores read in one round
#: Scored images after which a new classifier is looked at again: it was trained on few of the
#: prompts of now, and twice as many teach more, though the last look may have found none better.
REVIEWS = (400, 800, 1600)

log = get_logger(__name__)


class DriftMonitor:
    """Watches one classifier after the other."""

    def __init__(
        self,
        classifier: TrainedClassifier,
        detector: DriftDetector,
        *,
        scores: Scores,
        board: Classifiers,
        files: ClassifierFiles,
        encoder: SentenceEncoder,
        adopt: Callable[[TrainedClassifier], None],
        leads: Callable[[], bool],
        metrics: Metrics,
    ) -> None:
        self._classifier = classifier
        self._detector = detector
        self._scores = scores
        self._board = board
        self._files = files
        self._encoder = encoder
        self._adopt = adopt
        self._leads = leads  #: of several schedulers one asks for retraining
        self._metrics = metrics
        self._base = classifier.card.digest  #: versions taught beside another are not for here
        self._version = SHIPPED
        self._passed_over = ""  #: id of a version that cannot be used, which was told once
        self._cursor: str | None = None  #: in the scores; None while another scheduler leads
        self._scored = 0  #: since the last change
        self._reviews: tuple[int, ...] = ()  #: that are to come, each after so many scores
        self._complaint = ""

    async def run(self) -> None:
        """Do rounds until cancelled."""
        while True:
            await self._try_round()
            await asyncio.sleep(POLL_S)

    async def round(self) -> None:
        """Take over what was published; read new scores; ask for retraining if they have fallen.

        Raises:
            Unavailable: a store does not answer.
        """
        await self._take_over()
        if not self._leads():
            self._cursor = None
        elif self._cursor is None:
            self._cursor = await self._scores.last()
        else:
            await self._watch(self._cursor)

    async def _try_round(self) -> None:
        with log_errors(log, "drift_monitor_failed"):
            try:
                await self.round()
            except AtelierError as error:
                self._complain(str(error))
            else:
                self._complaint = ""

    def _complain(self, complaint: str) -> None:
        if complaint != self._complaint:
            log.warning("classifier_not_watched", reason=complaint)
        self._complaint = complaint

    async def _take_over(self) -> None:
        newest = await self._newest()
        if newest is None or newest.id in (self._version, self._passed_over):
            return
        try:
            classifier = await asyncio.to_thread(self._load, newest.id)
            self._adopt(classifier)
        except (ConfigurationError, ObjectMissing) as error:  # the one at hand is watched on
            return self._pass_over(newest, str(error))
        self._classifier, self._version, self._passed_over = classifier, newest.id, ""
        self._detector.reset()
        self._scored, self._reviews = 0, REVIEWS
        self._metrics.see_classifier()
        log.info("classifier_changed", version=newest.id, cause=newest.cause)

    async def _newest(self) -> ClassifierVersion | None:
        """Read which version is to be in force; None: the base."""
        versions = await self._board.versions()
        ours = taught_from(self._base, versions)
        if versions and not ours:
            self._pass_over(versions[0], "it was taught beside another classifier than is here")
        return ours[0] if ours else None

    def _pass_over(self, version: ClassifierVersion, reason: str) -> None:
        if version.id != self._passed_over:
            log.warning("classifier_not_used", version=version.id, reason=reason)
        self._passed_over = version.id

    def _load(self, version_id: str) -> TrainedClassifier:
        return TrainedClassifier(self._files.get(version_id), self._encoder)

    async def _watch(self, cursor: str) -> None:
        page = await self._scores.after(cursor, PAGE)
        self._cursor = page.cursor
        for residual in await asyncio.to_thread(residuals, self._classifier, page.scores):
            drift = self._detector.observe(residual)
            if drift is not None:
                self._metrics.see_drift()
                fell = f"quality fell {drift.average - drift.median:.3f} below what is normal"
                await self._want(f"{fell}, after {drift.samples} scored images")
        self._metrics.see_residuals(self._detector.median, self._detector.average)
        await self._review(len(page.scores))

    async def _review(self, scored: int) -> None:
        """Have a new classifier looked at again, with more of what it was trained for."""
        self._scored += scored
        if self._reviews and self._scored >= self._reviews[0]:
            after, *later = self._reviews
            self._reviews = tuple(later)
            await self._want(f"{after} scored images since the last change")

    async def _want(self, cause: str) -> None:
        if await self._board.want(cause):
            log.warning("retraining_wanted", cause=cause)


def residuals(classifier: TrainedClassifier, scores: Sequence[Score]) -> list[float]:
    """Subtract what a classifier predicts from what came, at levels that it knows."""
    known = [score for score in scores if score.level in classifier.levels]
    expected = classifier.expect([score.prompt for score in known])
    columns = [classifier.levels.index(score.level) for score in known]
    return [
        score.quality - float(row[column])
        for score, row, column in zip(known, expected, columns, strict=True)
    ]


def open_drift_monitor(
    settings: Settings,
    redis: Redis,
    metrics: Metrics,
    *,
    in_force: InForce,
    encoder: Callable[[], SentenceEncoder],
    profile: Profile,
    loop: PlanLoop,
) -> DriftMonitor | None:
    """Join it to the stores; None: there is no trained classifier, or nowhere to find more.

    `profile`: as it was measured, before any classifier told it its classes.
    """
    classifier = in_force.classifier
    if not isinstance(classifier, TrainedClassifier):
        return None
    try:
        files = open_files(settings)
    except ConfigurationError as error:  # the classifier at hand goes on as it is
        log.warning("classifier_not_watched", reason=str(error))
        return None

    def adopt(new: TrainedClassifier) -> None:
        refuse_other_models(new, profile)
        known = profile.with_classes(new.card.classes)
        take_force = partial(setattr, in_force, "classifier", new)
        loop.adopt(Successor(classes=new.classes, profile=known, take_force=take_force))

    return DriftMonitor(
        classifier,
        DriftDetector(),
        scores=ScoreStream(redis),
        board=ClassifierBoard(redis),
        files=files,
        encoder=encoder(),
        adopt=adopt,
        leads=lambda: loop.is_leader,
        metrics=metrics,
    )
