"""Decide how many webhooks are on their way to one receiver at a time. Pure.

How long a receiver takes is known when it has answered. So few go at first; while they are settled
soon and threads are free, as many more go as were settled (TCP's slow start); while one takes long
the number is halved at each look. A receiver that hangs so holds few of a CPU worker's 16 threads,
one of them where many hang, and one that answers has as many as there are.
"""

from collections import deque
from collections.abc import Iterator, Set
from dataclasses import dataclass

from storage.jobs.outbox import SETTLE_S, Delivery

#: On their way at a time at first, a quarter of a CPU worker's threads; fewer where none is free.
FIRST = 4
#: A webhook that is not settled for longer takes long.
SLOW_S = 5.0
#: One that is not settled for so long was a worker's that is no more: an attempt takes half of it.
LOST_S = 30.0
#: One may wait here for so long: an attempt fits in before the outbox hands it out again.
HOLD_S = SETTLE_S - 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOut:
    """A webhook that is held here, or on its way."""

    delivery: Delivery
    at: float  #: monotonic s, when the outbox handed it out, or it was sent on its way


class WebhookReceiver:
    """The webhooks of one receiver: those held until there is room, and those on their way."""

    def __init__(self) -> None:
        self._held: deque[HandedOut] = deque()
        self._on_way: dict[str, HandedOut] = {}
        self._window = FIRST  #: how many may be on their way

    @property
    def is_idle(self) -> bool:
        """Whether nothing is held or on its way: then nothing need be known of it."""
        return not self._held and not self._on_way

    @property
    def on_way(self) -> list[Delivery]:
        """Those that were sent and, at the last look, not settled."""
        return [each.delivery for each in self._on_way.values()]

    def hold(self, delivery: Delivery, now: float) -> None:
        """Keep what the outbox has handed out until there is room."""
        self._held.append(HandedOut(delivery=delivery, at=now))

    def see(self, unsettled: Set[str], now: float, *, are_threads_free: bool) -> None:
        """Forget what was settled or lost since the last look, and learn from how long it took."""
        ages_s = {name: now - sent.at for name, sent in self._on_way.items()}
        left = {name for name, age_s in ages_s.items() if name in unsettled and age_s < LOST_S}
        if any(age_s > SLOW_S for age_s in ages_s.values()):
            least = min(self._window, FIRST) if are_threads_free else 1
            self._window = max(least, self._window // 2)
        elif self._held and are_threads_free:
            self._window += len(ages_s) - len(left)
        self._on_way = {name: sent for name, sent in self._on_way.items() if name in left}

    def send(self, now: float) -> Iterator[Delivery]:
        """Send what there is room for, the longest held first; forget what was held too long."""
        while self._held and now - self._held[0].at >= HOLD_S:
            self._held.popleft()
        while self._held and len(self._on_way) < self._window:
            held = self._held.popleft()
            self._on_way[held.delivery.id] = HandedOut(delivery=held.delivery, at=now)
            yield held.delivery
