"""Know what waits on each queue: what is reported, and what was sent there since. Pure.

The caller brings the clock. Work is counted in images; a job that waits is taken to have as many,
of as many steps, as jobs sent to its queue lately.
"""

import heapq
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from core.boards.fleet import FleetChange, QueueDepth
from core.boards.plan import Plan, Usual
from core.levels.level import Level
from core.model import Model
from core.placement import PlacementQuery, model_of, queue_of, shared_queue_of
from scheduler.routing.model_ready import Foresight
from scheduler.routing.stations import Station, Stations, Work

#: A report may be so much older than the moment at which it was read: until then nobody tells of a
#: job that was sent. One that is done sooner is counted until it is expected to be.
REPORT_AGE_S = 1.0
#: Weight of one more job in the mean of those sent to a queue.
WEIGHT = 0.05
#: By which that mean changes before anybody expects other jobs.
ALIKE = 0.01
#: E-folding time of the count of jobs sent to a model.
LATELY_S = 60.0
DIGITS = 3  #: of that count, as it is told
MOST_WORKS = 1000  #: that are remembered, by what may be asked for


class Sent(NamedTuple):
    """A job on its way to a queue."""

    at: float  #: seconds of the caller's clock
    queue: str
    work: Work
    is_batch: bool  #: it is served after those that are not
    tenant: str = ""


class Before(NamedTuple):
    """What a job finds where it is to go. Units: images."""

    station: Station
    present: float  #: on the queue and its workers that are served before it
    left: float  #: of its tenant that the queue still takes

    def has_slot(self, work: Work) -> bool:
        """Tell whether a job finds a free slot."""
        return self.present <= self.station.slots - work.images and self.left >= 0


class Line:
    """Jobs that wait on one queue, and images on their way there."""

    __slots__ = ("_coming", "_first", "_later", "_sent", "_told", "_waiting", "held_by", "model")

    def __init__(self, queue: str) -> None:
        """Know of no job yet."""
        self.model = model_of(queue)  #: by which jobs sent here are told from others
        self.held_by = model_of(shared_queue_of(queue))  #: the model that serves it
        self._waiting = 0  #: jobs, as last reported
        self._later = 0  #: of these, those that let others go before
        self._told: Mapping[str, int] = {}  #: tenant -> jobs, where that is told
        self._first = self._sent = 0  #: images on their way: those that go before others, and all
        self._coming: dict[str, int] = {}  #: tenant -> images on their way

    @property
    def is_empty(self) -> bool:
        """Whether it says no more than one of which nothing is known."""
        return not (self._waiting or self._coming or self._sent or self._told)

    def measure(self, depth: QueueDepth | None) -> None:
        """Take in what is reported; None: nothing is."""
        if depth is None:
            self._waiting, self._later, self._told = 0, 0, {}
        else:
            self._waiting, self._later, self._told = depth.waiting, depth.later, depth.tenants

    def send(self, images: int, tenant: str, *, is_batch: bool) -> None:
        """Count what goes there; fewer than none: no longer."""
        self._sent += images
        if not is_batch:
            self._first += images
        coming = self._coming
        left = coming.get(tenant, 0) + images
        if left:
            coming[tenant] = left
        else:
            coming.pop(tenant, None)

    def ahead(self, tenant: str, images: float, *, is_batch: bool) -> float:
        """Count the images that are served before those of a new job of a tenant.

        Args:
            images: of a job that waits.
        """
        if is_batch:
            return self._waiting * images + self._sent
        whole = (self._waiting - self._later) * images + self._first
        if self._is_alone(tenant):
            return whole
        tenants = self._tenants(images)
        own = tenants.pop(tenant, 0.0)
        turns = own + images
        return min(whole, own + sum(min(others, turns) for others in tenants.values()))

    def room(self, most: int, tenant: str, images: float) -> float:
        """Count the images of a tenant that may come before the queue takes no more of its jobs."""
        free = (most - self._waiting) * images - self._sent
        tenants = self._tenants(images) if self._told else self._untold
        if not tenants:
            return free
        share = most * images / (len(tenants) + (tenant not in tenants))
        return max(free, share - tenants.get(tenant, 0))

    @property
    def _untold(self) -> Mapping[str, float]:
        """Count the images of each tenant where nobody tells whose jobs wait."""
        return {} if self._waiting else self._coming

    def _tenants(self, images: float) -> dict[str, float]:
        """Count the images of each tenant on the queue and on their way, where that is told."""
        if not self._told:
            return dict(self._untold)
        found = {tenant: count * images for tenant, count in self._told.items()}
        for tenant, coming in self._coming.items():
            found[tenant] = found.get(tenant, 0.0) + coming
        return found

    def _is_alone(self, tenant: str) -> bool:
        """Tell whether no other tenant is known to have jobs here, or on their way."""
        coming = self._coming
        if self._told:
            return not (self._told.keys() | coming.keys()) - {tenant}
        return bool(self._waiting) or not coming or (len(coming) == 1 and tenant in coming)


class Lines(dict[str, Line]):
    """All of them by queue, made when they are first named."""

    def __missing__(self, queue: str) -> Line:
        found = self[queue] = Line(queue)
        return found


class _Usually(NamedTuple):
    """A station, and what it is with jobs as they come."""

    station: Station
    usual: Usual
    found: Station


class _Count(NamedTuple):
    """Jobs sent to a model of late."""

    at: float  #: when the last one was
    jobs: float  #: that count then: older ones for less


class Backlog:
    """The fleet, its queues and what is on its way there."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        """Know of no worker yet."""
        self._models = models
        self._stations = Stations(models)
        self._depths: Mapping[str, QueueDepth] = {}
        self._sent: deque[Sent] = deque()
        self._brief: list[tuple[float, int, Sent]] = []  #: a heap: when each is done, its number
        self._count = 0
        self._lines = Lines()
        self._coming: dict[str, Station | None] = {}  #: by queue, since the last look
        self._usually: dict[str, _Usually] = {}  #: by queue
        self.usual: dict[str, Usual] = {}  #: model -> what its jobs are like
        self._lately: dict[str, _Count] = {}  #: by model
        self._works: dict[tuple[str, int, float, int], Work] = {}

    def hear(self, change: FleetChange, now: float) -> None:
        """Take in what changed of the workers."""
        self._stations.hear(change)

    def measure(self, depths: Sequence[QueueDepth], now: float) -> None:
        """Take in what queues report, with or after the workers of that moment."""
        self._coming = {}
        self._depths = {depth.queue: depth for depth in depths}
        for queue in self._lines.keys() | self._depths.keys():
            line = self._lines[queue]
            line.measure(self._depths.get(queue))
            if line.is_empty:  # own queues of workers come and go with them
                del self._lines[queue]
        # Or of a moment that is yet to come: the clock was turned back.
        while self._sent and abs(now - self._sent[0].at) > REPORT_AGE_S:
            self._forget(self._sent.popleft())
        self.pass_to(now)

    def pass_to(self, now: float) -> None:
        """Count no more what was sent and is expected to be done before any report tells of it."""
        while self._brief and not now < self._brief[0][0] <= now + REPORT_AGE_S:
            self._forget(heapq.heappop(self._brief)[2])

    def send(self, sent: Sent, plan: Plan) -> None:
        """Note that a job goes to a queue."""
        eta_s = self._eta_s(sent, plan)
        if eta_s < REPORT_AGE_S:
            self._count += 1
            heapq.heappush(self._brief, (sent.at + eta_s, self._count, sent))
        else:
            self._sent.append(sent)
        line = self._lines[sent.queue]
        line.send(sent.work.images, sent.tenant, is_batch=sent.is_batch)
        self._expect(line.model, sent)

    def weighed(self, now: float) -> dict[str, tuple[float, Usual]]:
        """Say how many jobs each model was sent of late, and what they are like."""
        return {m: (round(self._weight(m, now), DIGITS), mean) for m, mean in self.usual.items()}

    def before(
        self, queue: str, query: PlacementQuery, most: int, plan: Plan, now: float
    ) -> Before | None:
        """Look at a queue on which `most` jobs may wait, for one more; None: nobody serves it."""
        station = self.foreseen(queue, plan, now)
        if station is None:
            return None
        line, tenant = self._lines[queue], query.tenant or ""
        images = self._images(line.model)
        ahead = line.ahead(tenant, images, is_batch=query.is_batch)
        return Before(station, station.present + ahead, line.room(most - 1, tenant, images))

    def ahead(self, queue: str, *, is_batch: bool = False, tenant: str = "") -> float:
        """Count the images on a queue that are served before those of a new job of a tenant.

        Tenants take turns (ADR 0024): of another's no more are than the tenant has there itself,
        with the new job. Of batch jobs that is not foreseen.
        """
        line = self._lines[queue]
        return line.ahead(tenant, self._images(line.model), is_batch=is_batch)

    def work_of(self, level: Level, query: PlacementQuery) -> Work:
        """Count the steps that a job has before it at a level."""
        steps = query.steps or self._models[level.model].default_steps
        key = (level.name, steps, query.share, query.rows)
        found = self._works.get(key)
        if found is None:
            if len(self._works) >= MOST_WORKS:
                self._works = {}
            left = level.approximation.steps_left(int(steps * query.share))
            found = self._works[key] = Work(steps=left, images=query.rows)
        return found

    def late_s(self, level: Level, query: PlacementQuery, plan: Plan) -> float | None:
        """Expect how much later than promised a job is done; None if that is a guess."""
        queue = queue_of(level.model)
        station = self.station(queue, plan)
        if station is None or not station.is_known or query.slo_s is None:
            return None
        line = self._lines[queue]  # as in `ahead`, without the call: each level of a job comes here
        images = self._images(line.model)
        ahead = line.ahead(query.tenant or "", images, is_batch=query.is_batch)
        return station.late_s(self.work_of(level, query), ahead, query.slo_s)

    def station(self, queue: str, plan: Plan) -> Station | None:
        """Find who serves a queue; None: nobody does."""
        return self._stations.of(queue, plan)

    def foreseen(self, queue: str, plan: Plan, now: float) -> Station | None:
        """Find who serves a queue or will, with jobs as they come there; None: nobody can."""
        station = self.station(queue, plan) or self._foreseen(queue, plan, now)
        usual = self.usual.get(self._lines[queue].held_by)
        if station is None or usual is None:
            return station
        return self._as_usual(queue, station, usual)

    def _as_usual(self, queue: str, station: Station, usual: Usual) -> Station:
        """Expect such jobs at a station, which is put together again once they differ."""
        known = self._usually.get(queue)
        if known is None or known.station is not station or not _is_alike(known.usual, usual):
            found = station.with_jobs(usual)
            known = self._usually[queue] = _Usually(station=station, usual=usual, found=found)
        return known.found

    def _eta_s(self, sent: Sent, plan: Plan) -> float:
        """Expect when a job is done that is not counted yet."""
        station = self.station(sent.queue, plan)
        if station is None:
            return REPORT_AGE_S
        alone_s = sent.work.steps * station.steps_s[0]
        if alone_s >= REPORT_AGE_S:  # most are; it is longer in company
            return alone_s
        return station.eta_s(sent.work, self.ahead(sent.queue, is_batch=sent.is_batch))

    def _foreseen(self, queue: str, plan: Plan, now: float) -> Station | None:
        if queue not in self._coming:
            foresight = Foresight(
                models=self._models,
                fleet=self._stations.workers.values(),
                plan=plan,
                depths=tuple(self._depths.values()),
                now=now,
            )
            self._coming[queue] = self._stations.coming(queue, foresight)
        return self._coming[queue]

    def _images(self, model: str) -> float:
        usual = self.usual.get(model)
        return usual.images if usual is not None else 1.0

    def _weight(self, model: str, now: float) -> float:
        known = self._lately.get(model)
        if known is None:
            return 0.0
        return known.jobs * math.exp(-max(0.0, now - known.at) / LATELY_S)

    def _expect(self, model: str, sent: Sent) -> None:
        """Take one more job into the mean of those sent to a model."""
        self._lately[model] = _Count(sent.at, self._weight(model, sent.at) + 1.0)
        steps, images = sent.work
        mean = self.usual.get(model)
        if mean is None:
            self.usual[model] = Usual(steps=float(steps), images=float(images))
        elif steps != mean.steps or images != mean.images:
            self.usual[model] = Usual(
                steps=mean.steps + WEIGHT * (steps - mean.steps),
                images=mean.images + WEIGHT * (images - mean.images),
            )

    def _forget(self, sent: Sent) -> None:
        line = self._lines[sent.queue]
        line.send(-sent.work.images, sent.tenant, is_batch=sent.is_batch)


def _is_alike(one: Usual, other: Usual) -> bool:
    is_as_long = abs(one.steps - other.steps) <= ALIKE * one.steps
    return is_as_long and abs(one.images - other.images) <= ALIKE * one.images
