"""Decide how many webhooks are on their way at a time, to one host or of one tenant. Pure.

How long a receiver takes is known when it has answered. So few go at first; while they are settled
soon and threads are free, as many more go as were settled (TCP's slow start); while one takes long
the number is halved at each look. Receivers that hang so hold few of a CPU worker's 16 threads,
those of one tenant under however many names, and one that answers has as many as there are.
"""

from collections.abc import Set
from dataclasses import dataclass

from storage.jobs.outbox import Delivery

#: On their way at first to one host, a quarter of a CPU worker's threads, and of one tenant: a host
#: that hangs leaves some to its tenant's others. A quarter of it where no thread is free.
OF_HOST, OF_TENANT = 4, 8
#: A webhook that is not settled for longer takes long.
SLOW_S = 5.0
#: One that is not settled for so long was a worker's that is no more: an attempt takes half of it.
LOST_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOut:
    """A webhook that is held by upkeep, or on its way."""

    delivery: Delivery
    at: float  #: monotonic s, when the outbox handed it out, or it was sent on its way


class WebhookWindow:
    """The webhooks that are on their way, of those that share a receiver."""

    def __init__(self, first: int) -> None:
        """Let so many go at first."""
        self._first = self._most = first
        self._on_way: dict[str, HandedOut] = {}

    @property
    def on_way(self) -> list[Delivery]:
        """Those that were sent and, at the last look, not settled."""
        return [each.delivery for each in self._on_way.values()]

    @property
    def has_room(self) -> bool:
        """Whether one more may go."""
        return len(self._on_way) < self._most

    def send(self, delivery: Delivery, now: float) -> None:
        """Note that a webhook is on its way."""
        self._on_way[delivery.id] = HandedOut(delivery=delivery, at=now)

    def see(
        self, unsettled: Set[str], now: float, *, has_more: bool, are_threads_free: bool
    ) -> None:
        """Forget what was settled or lost since the last look, and learn from how long it took."""
        ages_s = {name: now - sent.at for name, sent in self._on_way.items()}
        left = {name for name, age_s in ages_s.items() if name in unsettled and age_s < LOST_S}
        if any(age_s > SLOW_S for age_s in ages_s.values()):
            least = min(self._most, self._first) if are_threads_free else self._first // 4
            self._most = max(least, self._most // 2)
        elif has_more and are_threads_free:
            self._most += len(ages_s) - len(left)
        self._on_way = {name: sent for name, sent in self._on_way.items() if name in left}
