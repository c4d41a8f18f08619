"""Remember who was refused and told when to come again. Pure: the caller brings the clock.

Those who come again when they were told have their place: others let them go before. How many do
come is learned, so that nobody is told to wait for the places of those who never will.
"""

import heapq
from collections import deque
from dataclasses import dataclass

#: Promises that are remembered; whoever is refused beyond that is told as much and forgotten.
MOST = 10_000
#: After the moment it was told, a place is kept for so long, or for so great a part of the wait.
GRACE_S, GRACE = 3.0, 0.3
#: Before that moment nobody is early by less.
EARLY_S = 1.0
#: Weight of one more promise that ran out, or was kept, in the share of those that are.
WEIGHT = 0.05


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
        return sum(map(len, self._open.values()))

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
        if not key or self._count_open() >= MOST:
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

    def _count_open(self) -> int:
        return len(self._expiring)
