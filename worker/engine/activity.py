"""Say what the engine's thread is doing, for whoever watches whether it moves."""

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from core.variant import Model
from worker.engine.slot import Slot, Ticket


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Activity:
    """One call of a model that has begun."""

    doing: str  #: preparing, denoising or decoding
    model: Model
    shape: Hashable  #: what decides how long it takes, beside the model
    rows: int  #: of the batch
    pixels: int  #: of one image
    jobs: tuple[str, ...]  #: ids of those it is made for
    is_steered: bool  #: it may wait for the ControlNets of other processes

    @property
    def key(self) -> Hashable:
        """What its time is compared by."""
        return (self.doing, self.model.name, self.shape, self.rows)


class Activities:
    """What one thread does, one thing at a time; `now` may be read by any other."""

    def __init__(self, on_done: Callable[[Activity, float], object]) -> None:
        """Prepare; `on_done` hears of every activity that has ended, and its seconds."""
        self._on_done = on_done
        self.now: Activity | None = None

    @contextmanager
    def during(self, activity: Activity) -> Iterator[None]:
        """Be at something."""
        self.now, began = activity, time.perf_counter()
        try:
            yield
        finally:
            self.now = None
            self._on_done(activity, time.perf_counter() - began)


def preparing(ticket: Ticket) -> Activity:
    """Open one image of a job."""
    return _alone("preparing", ticket)


def decoding(slot: Slot) -> Activity:
    """Turn one latent into pixels."""
    return _alone("decoding", slot.ticket)


def denoising(batch: Sequence[Slot]) -> Activity:
    """Take a step of a batch."""
    request = batch[0].ticket.job.request
    return Activity(
        doing="denoising",
        model=batch[0].ticket.runner.model,
        shape=batch[0].sample.group,
        rows=sum(slot.rows for slot in batch),
        pixels=request.width * request.height,
        jobs=tuple(dict.fromkeys(slot.ticket.job.id for slot in batch)),
        is_steered=any(slot.ticket.job.request.controls for slot in batch),
    )


def _alone(doing: str, ticket: Ticket) -> Activity:
    request = ticket.job.request
    return Activity(
        doing=doing,
        model=ticket.runner.model,
        shape=(request.height, request.width, request.task),
        rows=1,
        pixels=request.width * request.height,
        jobs=(ticket.job.id,),
        is_steered=bool(request.controls),
    )
