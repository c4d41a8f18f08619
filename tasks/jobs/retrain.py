"""Celery task that retrains the prompt classifier on request: one at a time, by lease.

It learns from images that were made for others and scored. Nothing waits for it: the classifier
in force stays in force until a better one is published (docs/adr/0013).
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable

from classifier.encoder.installed import open_encoder
from classifier.files import ClassifierFiles, open_files
from classifier.training.data import TrainingData, read_shipped
from classifier.training.retrain import RetrainResult
from core.boards.classifier import SHIPPED, ClassifierVersion
from core.errors import AtelierError, Unavailable
from core.log import get_logger
from core.settings import CLASSIFIER, Settings, get_settings
from storage.boards.classifiers import ClassifierBoard, Classifiers
from storage.boards.fleet import Leadership, Leads
from storage.boards.scores import FIRST, MAX_SCORES, Scores, ScoreStream
from storage.redis.connect import connect
from tasks.app import app
from tasks.messages import RETRAIN

log = get_logger(__name__)

LEASE_S = 30.0  #: whoever is silent for so long is taken for dead
RENEW_S = 5.0


def retrain() -> str:
    """Retrain if that is wanted and nobody else is at it; say what came of it."""
    return asyncio.run(_retrain(get_settings()))


async def _retrain(settings: Settings) -> str:
    redis = connect(settings.redis_url)
    lead = Leadership(redis, "retrain", f"{socket.gethostname()}:{os.getpid()}", LEASE_S)
    try:
        if await lead.acquire() is None:
            return "somebody else is at it"
        files = open_files(settings)
        retraining = Retraining(
            ClassifierBoard(redis),
            ScoreStream(redis),
            lead=lead,
            files=files,
            school=lambda: open_school(settings, files),
        )
        outcome = await retraining.run()
        await lead.release()
        return outcome
    finally:
        await redis.aclose()


def open_school(settings: Settings, files: ClassifierFiles) -> TrainingData:
    """Open the encoder and read the labels that ship.

    Raises:
        ConfigurationError: something of it cannot be used.
    """
    shipped = read_shipped(settings.models_dir.parent / CLASSIFIER)
    return TrainingData(open_encoder(settings), files, shipped)


class Retraining:
    """One retraining, from the wish to what came of it."""

    def __init__(
        self,
        board: Classifiers,
        scores: Scores,
        *,
        lead: Leads,
        files: ClassifierFiles,
        school: Callable[[], TrainingData],
        renew_s: float = RENEW_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._board = board
        self._scores = scores
        self._lead = lead
        self._files = files
        self._school = school
        self._renew_s = renew_s
        self._clock = clock

    async def run(self) -> str:
        """Do what is wanted. What cannot be done is dropped; what cannot be done now stays wanted.

        Raises:
            Unavailable: a store does not answer.
        """
        cause = await self._board.wanted()
        if cause is None:
            return "nobody wants it any more"
        try:
            outcome = await self._retrain(cause)
        except Unavailable:
            raise
        except (AtelierError, ImportError) as error:
            log.warning("not_retrained", cause=cause, reason=repr(error))
            outcome = str(error)
        await self._board.settle()
        return outcome

    async def _retrain(self, cause: str) -> str:
        began = time.perf_counter()
        versions = await self._board.versions()
        page = await self._scores.after(FIRST, MAX_SCORES)
        work = asyncio.to_thread(lambda: self._school().teach(versions, page.scores))
        teaching = asyncio.create_task(work)
        while not (await asyncio.wait({teaching}, timeout=self._renew_s))[0]:
            await self._lead.renew()
        verdict, version_id = await teaching
        seconds = round(time.perf_counter() - began, 1)
        log.info("retrained", cause=cause, outcome=verdict.reason, seconds=seconds)
        if version_id is not None:
            await self._publish(version_id, cause, verdict)
        return verdict.reason

    async def _publish(self, version_id: str, cause: str, verdict: RetrainResult) -> None:
        version = ClassifierVersion(
            id=version_id,
            made_at=self._clock(),
            cause=f"{cause}: {verdict.reason}",
            images=verdict.images,
            error=verdict.after.recent if verdict.after else 0.0,
            error_before=verdict.before.recent if verdict.before else 0.0,
        )
        dropped = {each.id for each in await self._board.publish(version)}
        kept = {each.id for each in await self._board.versions()} | {SHIPPED}
        await asyncio.to_thread(self._files.delete, dropped - kept)


task = app.task(retrain, name=RETRAIN, Request="tasks.doorbell:DoorbellRequest")
