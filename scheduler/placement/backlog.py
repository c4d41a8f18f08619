"""Know what waits on each queue: what is reported, and what was sent there since. Pure.

The caller brings the clock. Work is counted in images; a job that waits is taken to have as many,
of as many steps, as jobs sent to its queue lately.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from core.boards.fleet import QueueDepth, Worker
from core.boards.plan import Plan, Usual
from core.model import Model
from core.placement import model_of, shared_queue_of
from scheduler.routing.eta import Station, Stations, Work
from scheduler.routing.model_ready import Foresight

#: A report may be so much older than the moment at which it was read.
REPORT_AGE_S = 1.0
#: Weight of one more job in the mean of those sent to a queue.
WEIGHT = 0.05


class Sent(NamedTuple):
    """A job on its way to a queue."""

    at: float  #: seconds of the caller's clock
    queue: str
    work: Work
    is_batch: bool  #: it is served after those that are not


class Backlog:
    """The fleet, its queues and what is on its way there."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        """Know of no worker yet."""
        self._models = models
        self._stations = Stations(models)
        self._fleet: Sequence[Worker] = ()
        self._depths: Mapping[str, QueueDepth] = {}
        self._sent: deque[Sent] = deque()
        #: is batch -> queue -> images
        self._on_their_way = {is_batch: defaultdict[str, int](int) for is_batch in (False, True)}
        self._coming: dict[str, Station | None] = {}  #: by queue, since the last look
        self.usual: dict[str, Usual] = {}  #: model -> what its jobs are like

    def see(self, workers: Sequence[Worker], depths: Sequence[QueueDepth], now: float) -> None:
        """Take in what workers and queues report."""
        self._fleet, self._coming = workers, {}
        self._depths = {depth.queue: depth for depth in depths}
        while self._sent and self._sent[0].at < now - REPORT_AGE_S:
            self._forget(self._sent.popleft())

    def send(self, sent: Sent) -> None:
        """Note that a job goes to a queue."""
        self._sent.append(sent)
        self._on_their_way[sent.is_batch][sent.queue] += sent.work.images
        steps, images, model = sent.work.steps, sent.work.images, model_of(sent.queue)
        mean = self.usual.get(model) or Usual(steps=steps, images=images)
        self.usual[model] = Usual(
            steps=mean.steps + WEIGHT * (steps - mean.steps),
            images=mean.images + WEIGHT * (images - mean.images),
        )

    def ahead(self, queue: str, *, is_batch: bool = False) -> float:
        """Count the images on a queue that are served before those of a new job."""
        jobs = self.jobs(queue) if is_batch else self._waiting(queue, False)
        return jobs * self._images(queue) + self._underway(queue, is_batch)

    def jobs(self, queue: str) -> int:
        """Count the jobs that wait on a queue, as last reported."""
        return self._waiting(queue, False) + self._waiting(queue, True)

    def room(self, queue: str, most: int) -> float:
        """Count the images that may come before more than so many jobs wait on a queue."""
        underway = self._underway(queue, True)
        return (most - self.jobs(queue)) * self._images(queue) - underway

    def station(self, queue: str, plan: Plan) -> Station | None:
        """Find who serves a queue; None: nobody does."""
        return self._stations.of(queue, self._fleet, plan)

    def foreseen(self, queue: str, plan: Plan, now: float) -> Station | None:
        """Find who serves a queue or will, with jobs as they come there; None: nobody can."""
        station = self.station(queue, plan) or self._foreseen(queue, plan, now)
        usual = self.usual.get(model_of(shared_queue_of(queue)))
        return station if station is None or usual is None else station.with_jobs(usual)

    def _foreseen(self, queue: str, plan: Plan, now: float) -> Station | None:
        if queue not in self._coming:
            foresight = Foresight(
                models=self._models,
                fleet=self._fleet,
                plan=plan,
                depths=tuple(self._depths.values()),
                now=now,
            )
            self._coming[queue] = self._stations.coming(queue, foresight)
        return self._coming[queue]

    def _waiting(self, queue: str, is_batch: bool) -> int:
        depth = self._depths.get(queue)
        if depth is None:
            return 0
        return depth.later if is_batch else depth.waiting - depth.later

    def _underway(self, queue: str, is_batch: bool) -> int:
        first = self._on_their_way[False][queue]
        return first + self._on_their_way[True][queue] if is_batch else first

    def _images(self, queue: str) -> float:
        usual = self.usual.get(model_of(queue))
        return usual.images if usual is not None else 1.0

    def _forget(self, sent: Sent) -> None:
        self._on_their_way[sent.is_batch][sent.queue] -= sent.work.images
