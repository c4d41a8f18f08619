"""Refuse jobs that would wait too long, and say when each would be taken. Pure.

A job that finds a free slot is never refused, and what loading its model takes does not count: the
wait for others does. Who is refused has a place in line (`refused`) and is told when the
backlog, with those who were told before, will have fallen below the limit. While there is a line,
others are taken only when less than half of the limit is used: workers always have work.
"""

from collections import defaultdict
from dataclasses import dataclass

from core.boards.plan import Plan
from core.errors import TooManyRequests
from core.placement import PlacementQuery
from scheduler.placement.backlog import Backlog
from scheduler.placement.refused import QueuePromises
from scheduler.routing.eta import Station, Work

#: Shares of the limit: up to which those are taken who were told to come now, others while nobody
#: is in line, and others while somebody is; and at which a time to come again is aimed.
FULL, AIM, FREE = 1.0, 0.9, 0.5
MIN_RETRY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
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


class AdmissionControl:
    """Decides who may wait. Of one scheduler, for all api processes that ask it."""

    def __init__(self, backlog: Backlog, *, max_queue: int) -> None:
        """Refuse whoever would wait longer than it may, or beside more jobs than `max_queue`."""
        self._backlog = backlog
        self._max_queue = max_queue
        self._lines: dict[tuple[str, bool], QueuePromises] = defaultdict(
            QueuePromises
        )  #: by queue, and is batch

    def check(
        self, queue: str, work: Work, query: PlacementQuery, plan: Plan, now: float
    ) -> TooManyRequests | None:
        """Take a job (None), or refuse it until a moment that the answer names.

        Args:
            queue: a variant queue, on which it is not counted yet.
        """
        line = self._lines[queue, query.is_batch]
        line.expire(now)
        station = self._backlog.foreseen(queue, plan, now)
        if station is None:
            return None
        room = self._room(queue, station, work, query)
        is_due = line.is_due(query.ticket, now)
        if room.is_open(FULL if is_due or not len(line) else FREE):
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

    def _room(self, queue: str, station: Station, work: Work, query: PlacementQuery) -> Room:
        """Measure the tighter of both limits: of time, and of jobs on the queue."""
        present = station.present + self._backlog.ahead(queue, is_batch=query.is_batch)
        limit, reason = present + self._backlog.room(queue, self._max_queue - 1), "queue"
        if query.max_wait_s is not None and station.is_known:
            in_time = station.most_before(work, query.max_wait_s)
            limit, reason = min((limit, reason), (in_time, "wait"))
        return Room(
            present=present,
            limit=limit,
            slots=min(limit, max(0.0, station.slots - work.images)),
            throughput=station.throughput(station.slots),
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
