"""Refuse jobs that would wait too long, and say when each would be taken. Pure.

A job that finds a free slot is never refused, and what loading its model takes does not count: the
wait for others does. Who is refused has a place in line and is told when the backlog, with those
who were told before, will have fallen below the limit. While there is a line, others are taken only
when less than half of the limit is used: workers always have work. How many come when they were
told is learned, so that nobody is told to wait for the places of those who never will.
"""

import heapq
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import NamedTuple

from core.errors import TooManyRequests
from core.placement import PlacementQuery
from scheduler.placement.backlog import Before
from scheduler.routing.stations import Work

#: Shares of the limit: up to which those are taken who were told to come now, others while nobody
#: is in line, and others while somebody is; and at which a time to come again is aimed.
FULL, AIM, FREE = 1.0, 0.9, 0.5
MIN_RETRY_S = 1.0

#: Promises that are remembered; whoever is refused beyond that is told as much and forgotten.
MOST = 10_000
#: After the moment it was told, a place is kept for so long, or for so great a part of the wait.
GRACE_S, GRACE = 3.0, 0.3
#: Before that moment nobody is early by less.
EARLY_S = 1.0
#: Weight of one more promise that ran out, or was kept, in the share of those that are.
WEIGHT = 0.05


class Room(NamedTuple):
    """What may be on a queue before a job, and what is. Units: images."""

    present: float  #: before it now
    limit: float  #: at which it would wait as long as is allowed
    slots: float  #: at which it finds a free slot
    throughput: float  #: images that leave per second
    ready_s: float  #: until they begin to leave: the model is still to come
    reason: str  #: which limit it is: of the `wait`, or of the `queue`

    def is_open(self, share: float) -> bool:
        """Tell whether there is room below a share of the limit."""
        return self.present <= self._below(share)

    def open_in_s(self, share: float, others: float) -> float:
        """Expect when there will be, with so many others that go before."""
        over = max(0.0, self.present + others - self._below(share))
        return max(MIN_RETRY_S, self.ready_s + over / self.throughput)

    def _below(self, share: float) -> float:
        return self.slots + share * (self.limit - self.slots)


@dataclass(slots=True, kw_only=True)
class Promise:
    """When somebody was told to come again."""

    due_at: float  #: seconds of the caller's clock
    expires_at: float  #: likewise; after that its place is given away
    images: float
    is_open: bool = True  #: it was neither kept nor has it run out


class QueuePromises:
    """Promises of one queue, by what was asked for."""

    def __init__(self) -> None:
        self._open: dict[str, deque[Promise]] = {}
        self._expiring: list[tuple[float, int, str, Promise]] = []
        self._count = 0
        self._images = 0.0
        self._share = 1.0  #: of promises that were kept lately

    def __len__(self) -> int:
        return sum(map(len, self._open.values())) if self._open else 0

    @property
    def images(self) -> float:
        """Expect how many images will come again as they were told."""
        return self._images * self._share

    def is_due(self, key: str, now: float) -> bool:
        """Tell whether somebody who asks for this was told to come about now."""
        waiting = self._open.get(key)
        return waiting is not None and waiting[0].due_at <= now + EARLY_S

    def promise(self, key: str, images: float, in_s: float, now: float) -> None:
        """Note that somebody was told to come again in so many seconds."""
        if not key or len(self._expiring) >= MOST:
            return
        kept_s = in_s + max(GRACE_S, GRACE * in_s)
        new = Promise(due_at=now + in_s, expires_at=now + kept_s, images=images)
        self._open.setdefault(key, deque()).append(new)
        self._count += 1
        heapq.heappush(self._expiring, (new.expires_at, self._count, key, new))
        self._images += images

    def keep(self, key: str) -> None:
        """Note that somebody came again and was taken."""
        self._close(key, self._open[key][0], was_kept=True)

    def put_off(self, key: str, in_s: float, now: float) -> None:
        """Tell somebody another time who came when told, and could not be taken all the same."""
        promise = self._open[key][0]
        self._close(key, promise, was_kept=True)
        self.promise(key, promise.images, in_s, now)

    def expire(self, now: float) -> None:
        """Give away the places of those who did not come."""
        while self._expiring and self._expiring[0][0] <= now:
            _, _, key, promise = heapq.heappop(self._expiring)
            if promise.is_open:
                self._close(key, promise, was_kept=False)

    def _close(self, key: str, promise: Promise, *, was_kept: bool) -> None:
        promise.is_open = False
        self._open[key].remove(promise)
        if not self._open[key]:
            del self._open[key]
        self._images -= promise.images
        self._share += WEIGHT * (was_kept - self._share)


class AdmissionControl:
    """Decides who may wait. Of one scheduler, for all api processes that ask it."""

    def __init__(self, *, max_queue: int) -> None:
        """Refuse whoever would wait longer than it may, or beside more jobs than `max_queue`."""
        self.max_queue = max_queue
        #: by queue, is batch, and tenant: nobody waits for the places of other tenants
        self._lines: dict[tuple[str, bool, str], QueuePromises] = defaultdict(QueuePromises)

    @property
    def has_lines(self) -> bool:
        """Tell whether there was a job without a free slot: else nobody can be in line."""
        return bool(self._lines)

    def check(
        self, queue: str, work: Work, query: PlacementQuery, before: Before, now: float
    ) -> TooManyRequests | None:
        """Take a job (None), or refuse it until a moment that the answer names.

        Args:
            queue: a variant queue, on which it is not counted yet.
        """
        line = self._line(queue, query)
        line.expire(now)
        is_due = bool(query.ticket) and line.is_due(query.ticket, now)
        room = None if before.has_slot(work) else _room(before, work, query)
        if room is None or room.is_open(FULL if is_due or not len(line) else FREE):
            if is_due:
                line.keep(query.ticket)
            return None
        others = 0.0 if is_due else line.images
        retry_s = room.open_in_s(AIM, others)
        if is_due:
            line.put_off(query.ticket, retry_s, now)
        else:
            line.promise(query.ticket, work.images, retry_s, now)
        return _refusal(queue, query, room, retry_s)

    def _line(self, queue: str, query: PlacementQuery) -> QueuePromises:
        if len(self._lines) > MOST:
            self._lines = defaultdict(
                QueuePromises, {key: line for key, line in self._lines.items() if len(line)}
            )
        return self._lines[queue, query.is_batch, query.tenant or ""]


def _room(before: Before, work: Work, query: PlacementQuery) -> Room:
    """Measure the tighter of both limits: of time, and of jobs on the queue."""
    station, present, left = before
    limit, reason = present + left, "queue"
    if query.max_wait_s is not None and station.is_known:
        in_time = station.most_before(work, query.max_wait_s)
        limit, reason = min((limit, reason), (in_time, "wait"))
    return Room(
        present=present,
        limit=limit,
        slots=min(limit, max(0.0, station.slots - work.images)),
        throughput=station.full_throughput,
        ready_s=station.ready_s,
        reason=reason,
    )


def _refusal(queue: str, query: PlacementQuery, room: Room, retry_s: float) -> TooManyRequests:
    if room.reason == "queue":
        return TooManyRequests(f"the queue {queue} is full", retry_s, "queue")
    wait_s = (room.present - room.slots) / room.throughput
    why = "others who were told to ask again go before it"
    if not room.is_open(FULL):
        why = f"with that before it a job would take longer than {query.max_wait_s:.3g} s"
    detail = (
        f"the queue {queue} has work for {wait_s:.3g} s, and {why}; ask again after "
        f"{retry_s:.0f} s, or with priority 'batch'"
    )
    return TooManyRequests(detail, retry_s, "wait")
