"""Four batching policies: when to run, what size. Pure: the caller brings the clock.

For work that is done once for each item, such as to embed or to classify a prompt: a batch takes
less than its items one by one, and everybody in it waits for all of it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.settings import Batching

#: Nobody waits for less: a clock may be no finer.
INSTANT_S = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What to do with the items that wait, the first one first."""

    drop: int = 0  #: items that are given up: nobody would get them in time
    take: int = 0  #: of those after them, to be run now
    until: float = math.inf  #: with none to take: when to ask again, or once another one comes


class BatchPolicy(Protocol):
    """Decides whenever nothing runs and something waits."""

    def decide(self, due: Sequence[float], now: float) -> Move:
        """Say what to do with items due at these times, in the order they came."""
        ...

    def observe(self, size: int, seconds: float) -> None:
        """Learn what a batch took."""
        ...


class BatchLatency:
    """What batches take, as a straight line through those of before; old ones fade.

    How far batches were from it widens what is expected, so that is seldom exceeded.
    """

    FADE = 0.98  #: of what was learnt, with every batch
    MARGIN = 2.0  #: mean distances from the line that are added to it

    def __init__(self, start_s: float, item_s: float) -> None:
        """Begin with a guess, worth two batches."""
        self._sums = [0.0] * 5
        self._distance_s = 0.0  #: of batches from the line, mean
        for size in (1, 8):
            self._add(size, start_s + size * item_s)
        self._fit()

    def seconds(self, size: int) -> float:
        """Expect what a batch takes."""
        return self._start_s + size * self._item_s + self.MARGIN * self._distance_s

    def observe(self, size: int, seconds: float) -> None:
        """Learn what one took."""
        distance_s = abs(seconds - (self._start_s + size * self._item_s))
        self._distance_s += (1 - self.FADE) * (distance_s - self._distance_s)
        self._sums = [each * self.FADE for each in self._sums]
        self._add(size, seconds)
        self._fit()

    def largest(self, within_s: float, most: int) -> int:
        """Find the largest batch that is done in so many seconds; 0 if not even one item is."""
        room_s = within_s - self.seconds(0)
        if room_s < self._item_s:
            return 0
        return min(most, int(room_s / self._item_s + 1e-9)) if self._item_s > 0 else most

    def _add(self, size: int, seconds: float) -> None:
        row = (1.0, size, size * size, seconds, size * seconds)
        self._sums = [a + b for a, b in zip(self._sums, row, strict=True)]

    def _fit(self) -> None:
        count, sizes, squares, seconds, products = self._sums
        spread = count * squares - sizes * sizes
        each_s = seconds / sizes  # where all had one size, so that none is promised to gain by more
        slope = (count * products - sizes * seconds) / spread if spread > 1e-9 else each_s
        self._item_s = min(max(0.0, slope), each_s)
        self._start_s = max(0.0, (seconds - self._item_s * sizes) / count)


class Nexus:
    """Runs at once, without the items that are due before a full batch is done (early drop)."""

    def __init__(self, latency: BatchLatency, *, slo_s: float, most: int) -> None:
        self._latency = latency
        self._slo_s = slo_s
        self._most = most

    def decide(self, due: Sequence[float], now: float) -> Move:
        """Slide over the queue to the first item that a batch from there on is in time for."""
        full = self._latency.largest(self._slo_s / 2, self._most)
        for drop, at in enumerate(due):
            take = min(max(1, full), len(due) - drop)
            one_s = _one_s(self._latency, self._slo_s)
            if now + (self._latency.seconds(take) if take > 1 else one_s) <= at:
                return Move(drop=drop, take=take)
        return Move(drop=len(due))

    def observe(self, size: int, seconds: float) -> None:
        self._latency.observe(size, seconds)


class Proteus:
    """Waits as long as the first item can wait for one more (Proteus, section 5).

    The paper takes what the first item can wait for, also of a queue that holds more. Batches then
    shrink as the queue grows (0.42 late at a load of 0.9 where early drop has 0.04), so from there
    on items are given up as Nexus does.
    """

    def __init__(self, latency: BatchLatency, *, slo_s: float, most: int) -> None:
        self._latency = latency
        self._slo_s = slo_s
        self._most = most
        self._overload = Nexus(latency, slo_s=slo_s, most=most)

    def decide(self, due: Sequence[float], now: float) -> Move:
        """Run what is there once another item would come too late for the first."""
        latency = self._latency
        drop = _hopeless(due, now + _one_s(latency, self._slo_s))
        if drop == len(due):
            return Move(drop=drop)
        waiting, left_s = len(due) - drop, due[drop] - now
        size = max(1, latency.largest(left_s, min(waiting, self._most)))
        if size < min(waiting, latency.largest(self._slo_s / 2, self._most)):
            return self._overload.decide(due, now)
        wait_s = left_s - latency.seconds(size + 1)
        if size == waiting < self._most and wait_s > INSTANT_S:
            return Move(drop=drop, until=now + wait_s)
        return Move(drop=drop, take=size)

    def observe(self, size: int, seconds: float) -> None:
        self._latency.observe(size, seconds)


class Aimd:
    """Runs at once, at most a size that grows by one and shrinks by a tenth (Clipper)."""

    BACK = 0.9

    def __init__(self, latency: BatchLatency, *, slo_s: float, most: int) -> None:
        self._slo_s = slo_s
        self._most = most
        self._size = 1.0

    def decide(self, due: Sequence[float], now: float) -> Move:
        """Take what the size allows; what is over is late all the same, so nothing is saved."""
        drop = _hopeless(due, now)
        return Move(drop=drop, take=min(int(self._size), len(due) - drop))

    def observe(self, size: int, seconds: float) -> None:
        """Shrink after a batch that took too long, grow after a full one that did not."""
        if seconds > self._slo_s:
            self._size = max(1.0, self._size * self.BACK)
        elif size >= int(self._size):
            self._size = min(float(self._most), self._size + 1)


class Static:
    """Runs batches of one size, or what there is once the first item has waited long enough."""

    PATIENCE = 0.25  #: share of the time there is

    def __init__(self, latency: BatchLatency, *, slo_s: float, most: int) -> None:
        self._size = max(1, latency.largest(slo_s / 2, most))
        self._spare_s = (1 - self.PATIENCE) * slo_s

    def decide(self, due: Sequence[float], now: float) -> Move:
        drop = _hopeless(due, now)
        waiting = len(due) - drop
        if not waiting:
            return Move(drop=drop)
        until = due[drop] - self._spare_s
        if waiting < self._size and until - now > INSTANT_S:
            return Move(drop=drop, until=until)
        return Move(drop=drop, take=min(waiting, self._size))

    def observe(self, size: int, seconds: float) -> None:
        """Learn nothing."""


#: Makes a policy of what batches take, how long an item may take, and the largest batch.
_POLICIES: dict[Batching, Callable[..., BatchPolicy]] = {
    Batching.PROTEUS: Proteus,
    Batching.NEXUS: Nexus,
    Batching.AIMD: Aimd,
    Batching.STATIC: Static,
}


def make_policy(name: Batching, latency: BatchLatency, *, slo_s: float, most: int) -> BatchPolicy:
    """Make a policy under which an item takes `slo_s`, and no batch has more than `most`."""
    return _POLICIES[name](latency, slo_s=slo_s, most=most)


def _one_s(latency: BatchLatency, slo_s: float) -> float:
    """Expect what one item takes; nothing if that is too long, or nobody would ever find out."""
    seconds = latency.seconds(1)
    return seconds if seconds <= slo_s else 0.0


def _hopeless(due: Sequence[float], earliest: float) -> int:
    """Count the first items that are due before anything could be done."""
    return next((i for i, at in enumerate(due) if at >= earliest), len(due))
