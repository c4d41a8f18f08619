"""Pick the worker of a masked edit: InstGenIE's Algorithm 2. Pure.

An edit goes to the worker where the batch with it is done first. Workers where that is the same
are told apart by how warm its template is there, by who was sent something least lately, and by
name. In a large fleet it is the best of some (`Batches`).
"""

from collections.abc import Callable, Sequence

from core.boards.image_work import ImageWork
from core.placement import Placement, own_queue_of
from scheduler.placement.worker_batches import Batch, Batches, EditOffer

#: Says how much a worker would have with an edit; least is best.
Score = Callable[[Batch, EditOffer, float], float]

#: Digits of a second that are told apart.
_DIGITS = 6


def pipeline(batch: Batch, offer: EditOffer, now: float) -> float:
    """Seconds until the edit would be done."""
    return round(batch.pipeline_s(offer, now), _DIGITS)


class Dispatcher:
    """Sends edits to workers."""

    def __init__(self, batches: Batches, score: Score = pipeline) -> None:
        self._batches = batches
        self._score = score

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

    def _rank(self, batch: Batch, offer: EditOffer, now: float) -> tuple[float, int, float, str]:
        return (self._score(batch, offer, now), offer.tier, batch.sent_at, batch.worker.name)
