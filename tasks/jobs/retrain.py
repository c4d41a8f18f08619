"""Celery task that retrains the prompt classifier on request: one at a time, by lease.

It learns from images that were made for others and scored. Nothing waits for it: the classifier
in force stays in force until a better one is published (docs/adr/0013).
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from classifier.encoder.installed import open_encoder
from classifier.files import open_files
from classifier.training.data import TrainingData, labels_folder, read_shipped
from classifier.training.retrain import RetrainResult
from core.boards.classifier import SHIPPED, ClassifierVersion
from core.boards.score import Score
from core.errors import AtelierError, Unavailable
from core.log import get_logger
from core.settings import Settings, get_settings
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
    board, scores = ClassifierBoard(redis), ScoreStream(redis)
    try:
        return await Retraining(
            board, scores, lead=lead, data=lambda: open_training_data(settings)
        ).run()
    finally:
        await redis.aclose()


def open_training_data(settings: Settings) -> TrainingData:
    """Open the encoder and the classifiers, and read the labels.

    Raises:
        ConfigurationError: something of it cannot be used.
    """
    shipped = read_shipped(labels_folder(settings))
    return TrainingData(open_encoder(settings), open_files(settings), shipped)


class Retraining:
    """One retraining, from the wish to what came of it."""

    def __init__(
        self,
        board: Classifiers,
        scores: Scores,
        *,
        lead: Leads,
        data: Callable[[], TrainingData],
        renew_s: float = RENEW_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._board = board
        self._scores = scores
        self._lead = lead
        self._data = data
        self._renew_s = renew_s
        self._clock = clock

    async def run(self) -> str:
        """Do what is wanted. What cannot be done is dropped; what cannot be done now stays wanted.

        Raises:
            Unavailable: a store does not answer.
        """
        if await self._lead.acquire() is None:
            return "somebody else is at it"
        try:
            cause = await self._board.wanted()
            return "nobody wants it any more" if cause is None else await self._satisfy(cause)
        finally:
            with suppress(Unavailable):  # its time runs out
                await self._lead.release()

    async def _satisfy(self, cause: str) -> str:
        """Retrain once. A damaged file, or too little memory, would fail it again and again."""
        (outcome,) = await asyncio.gather(self._retrain(cause), return_exceptions=True)
        if isinstance(outcome, Unavailable):
            raise outcome
        if isinstance(outcome, BaseException):
            is_told = isinstance(outcome, AtelierError | ImportError)
            traceback = None if is_told else outcome
            log.warning("not_retrained", cause=cause, reason=repr(outcome), exc_info=traceback)
        await self._board.settle()
        return str(outcome)

    async def _retrain(self, cause: str) -> str:
        began = time.perf_counter()
        versions = await self._board.versions()
        page = await self._scores.after(FIRST, MAX_SCORES)
        work = asyncio.create_task(asyncio.to_thread(self._open_and_retrain, versions, page.scores))
        while not (await asyncio.wait({work}, timeout=self._renew_s))[0]:
            await self._lead.renew()
        data, (verdict, version_id) = await work
        seconds = round(time.perf_counter() - began, 1)
        log.info("retrained", cause=cause, outcome=verdict.reason, seconds=seconds)
        if version_id is not None:
            dropped = await self._publish(version_id, cause, verdict)
            await asyncio.to_thread(data.forget, dropped)
        return verdict.reason

    def _open_and_retrain(
        self, versions: Sequence[ClassifierVersion], scores: Sequence[Score]
    ) -> tuple[TrainingData, tuple[RetrainResult, str | None]]:
        data = self._data()
        return data, data.retrain(versions, scores)

    async def _publish(self, version_id: str, cause: str, verdict: RetrainResult) -> set[str]:
        """Put a version in force; return those that nobody goes back to for it."""
        version = ClassifierVersion(
            id=version_id,
            made_at=self._clock(),
            cause=f"{cause}: {verdict.reason}",
            images=verdict.images,
            error=verdict.after.recent if verdict.after else 0.0,
            error_before=verdict.before.recent if verdict.before else 0.0,
            base=verdict.base,
        )
        dropped = {each.id for each in await self._board.publish(version)}
        return dropped - {each.id for each in await self._board.versions()} - {SHIPPED}


task = app.task(retrain, name=RETRAIN, Request="tasks.doorbell:DoorbellRequest")
