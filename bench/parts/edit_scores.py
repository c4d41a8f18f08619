"""Rules for the worker of an edit that the scheduler does not use, to compare with its own."""

from enum import StrEnum

from scheduler.placement.dispatch import Score, pipeline
from scheduler.placement.worker_batches import Batch, EditOffer


class EditRouting(StrEnum):
    """Which worker makes a masked edit: the one where this is least with it."""

    PIPELINE = "pipeline"  #: seconds until it is done, loads included (InstGenIE, Algorithm 2)
    REQUESTS = "requests"  #: images
    TOKENS = "tokens"  #: masked parts of images


def requests(batch: Batch, offer: EditOffer, now: float) -> float:
    """Images to make."""
    return len(batch.tasks)


def tokens(batch: Batch, offer: EditOffer, now: float) -> float:
    """Pixels to make anew."""
    return sum(task.work.masked * task.work.pixels for task in batch.tasks)


SCORES: dict[EditRouting, Score] = {
    EditRouting.PIPELINE: pipeline,
    EditRouting.REQUESTS: requests,
    EditRouting.TOKENS: tokens,
}
