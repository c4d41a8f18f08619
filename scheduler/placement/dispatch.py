"""Pick the worker of a masked edit: InstGenIE's Algorithm 2, and two simpler rules. Pure.

An edit goes to the worker where the batch with it is done first. Workers where that is the same
are told apart by how warm its template is there, then by who was sent something least lately.
"""

from collections.abc import Callable, Sequence

from core.image_work import ImageWork
from core.placement import Placement, own_queue_of
from core.settings import EditRouting
from scheduler.placement.worker_batches import Batch, Batches, Offer

#: Says how much a worker would have with an edit; least is best.
Score = Callable[[Batch, Offer, float], float]

#: Digits of a second that are told apart.
_DIGITS = 6


def pipeline(batch: Batch, offer: Offer, now: float) -> float:
    """Seconds until the edit would be done."""
    return round(batch.pipeline_s(offer, now), _DIGITS)


def requests(batch: Batch, offer: Offer, now: float) -> float:
    """Images to make."""
    return len(batch.tasks)


def tokens(batch: Batch, offer: Offer, now: float) -> float:
    """Pixels to make anew."""
    return sum(task.work.masked * task.work.pixels for task in batch.tasks)


SCORES: dict[EditRouting, Score] = {
    EditRouting.PIPELINE: pipeline,
    EditRouting.REQUESTS: requests,
    EditRouting.TOKENS: tokens,
}


class Dispatcher:
    """Sends edits to workers."""

    def __init__(self, batches: Batches, policy: EditRouting = EditRouting.PIPELINE) -> None:
        self._batches = batches
        self._score = SCORES[policy]

    def dispatch(self, placement: Placement, works: Sequence[ImageWork], now: float) -> str | None:
        """Name the queue of the worker that shall make an edit; None: any may, none is known.

        `works`: an image each, for each model that could make it.
        """
        own = [work for work in works if work.model == placement.model]
        offers = self._batches.offers(placement.queue, own, now) if own else []
        if not offers:
            return None
        batch, offer = min(offers, key=lambda each: self._rank(each[0], each[1], now))
        self._batches.send(batch, offer, now)
        return own_queue_of(placement.queue, batch.worker.name)

    def forget(self, works: Sequence[ImageWork]) -> None:
        """Take back what was sent: it is placed again."""
        for job in {work.job for work in works}:
            self._batches.forget(job)

    def _rank(self, batch: Batch, offer: Offer, now: float) -> tuple[float, int, float]:
        return (self._score(batch, offer, now), offer.tier, batch.sent_at)
