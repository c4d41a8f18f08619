"""Celery task that scores finished images, off the critical path of jobs.

It runs on CPU workers behind everything else they do. One thread of a process scores; what
comes meanwhile is dropped, so that webhooks find the other threads free (docs/adr/0013).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from threading import Lock

from PIL import Image

from catalog.models import survey
from classifier.score_curve import Estimate, read_worth
from core.boards.score import Score
from core.errors import AtelierError, NotFound, ObjectMissing
from core.job import Job, JobStatus
from core.log import get_logger
from core.model import Model
from core.settings import Settings, get_settings
from core.traits import Use, is_as_profiled
from storage.boards.scores import Scores, ScoreStream
from storage.jobs.jobs import Jobs, JobStore
from storage.objects.store import ObjectStore, open_objects
from storage.redis.connect import connect
from tasks.app import app
from tasks.messages import SCORE

#: Says what images are worth to those who asked for them: prompts, levels, images.
Rate = Callable[[Sequence[str], Sequence[str], Sequence[Image.Image]], Sequence[Estimate]]

log = get_logger(__name__)

_turn = Lock()


def score(job_ids: Sequence[str]) -> int:
    """Score the first image of each job that compares with others; return how many there were."""
    if not _turn.acquire(blocking=False):
        return 0
    try:
        return asyncio.run(_score(job_ids, get_settings()))
    except (AtelierError, ImportError) as error:  # a store that is away, no torch, no scorer
        log.warning("not_scored", jobs=len(job_ids), reason=repr(error))
        return 0
    finally:
        _turn.release()


async def _score(job_ids: Sequence[str], settings: Settings) -> int:
    redis = connect(settings.redis_url)
    try:
        models = survey(settings.models_dir).models
        found = await look(job_ids, JobStore(redis, max_queue=0), models)
        if not found:
            return 0
        rate = _rate(settings.scorer_path, settings.torch_threads)
        return await judge(found, open_objects(settings), ScoreStream(redis), rate)
    finally:
        await redis.aclose()


async def look(job_ids: Sequence[str], jobs: Jobs, models: Mapping[str, Model]) -> list[Job]:
    """Read the jobs whose image says something of its level."""
    found = []
    for job_id in job_ids:
        try:
            job = await jobs.get(job_id)
        except NotFound:  # retention was faster
            continue
        model = models.get(job.placement.model)
        if model is not None and is_comparable(job, model):
            found.append(job)
    return found


def is_comparable(job: Job, model: Model) -> bool:
    """Tell whether only prompt and level decide how good an image is, as where it was profiled."""
    is_made = job.status is JobStatus.SUCCEEDED and bool(job.images)
    return is_made and is_as_profiled(Use.COMPARE, job.request, model)


async def judge(jobs: Sequence[Job], objects: ObjectStore, scores: Scores, rate: Rate) -> int:
    """Score the first image of each job and keep the scores; an image that is gone has none."""
    images = [(job, image) for job in jobs if (image := _read(job, objects)) is not None]
    if not images:
        return 0
    prompts = [job.request.prompt for job, _ in images]
    levels = [job.placement.level for job, _ in images]
    estimates = rate(prompts, levels, [image for _, image in images])
    await scores.add(
        [
            Score(
                job=job.id,
                prompt=prompt,
                level=level,
                quality=estimate.quality,
                variance=estimate.variance,
            )
            for (job, _), prompt, level, estimate in zip(
                images, prompts, levels, estimates, strict=True
            )
        ]
    )
    return len(images)


def _read(job: Job, objects: ObjectStore) -> Image.Image | None:
    try:
        return Image.open(BytesIO(objects.get(job.images[0].key))).convert("RGB")
    except ObjectMissing:
        return None


@cache
def _rate(folder: Path, threads: int) -> Rate:
    """Load the scorer once a process, when the first image comes: torch takes its time."""
    import torch

    from worker.diffusion.scorer import Scorer

    torch.set_num_threads(threads)
    scorer, worth = Scorer(folder), read_worth(folder)

    def rate(
        prompts: Sequence[str], levels: Sequence[str], images: Sequence[Image.Image]
    ) -> list[Estimate]:
        scores = scorer.scores(prompts, images).tolist()
        return [worth.estimate(*pair) for pair in zip(scores, levels, strict=True)]

    return rate


task = app.task(score, name=SCORE, Request="tasks.doorbell:DoorbellRequest")
