"""Batch size by early drop (Nexus), from what batches took. Pure: the caller brings the clock.

For work that is done once for each item, such as to embed or to classify a prompt: a batch takes
less than its items one by one, and everybody in it waits for all of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What to do with the items that wait, the first one first."""

    drop: int = 0  #: items that are given up: nobody would get them in time
    take: int = 0  #: of those after them, to be run now; at least one, unless none is left


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
    """Runs at once, without the items that are due before a full batch is done (early drop).

    An item takes `slo_s`, and no batch has more than `most`.
    """

    def __init__(self, latency: BatchLatency, *, slo_s: float, most: int) -> None:
        self._latency = latency
        self._slo_s = slo_s
        self._most = most

    def decide(self, due: Sequence[float], now: float) -> Move:
        """Slide over the queue to the first item that a batch from there on is in time for."""
        full = self._latency.largest(self._slo_s / 2, self._most)
        for drop, at in enumerate(due):
            take = min(max(1, full), len(due) - drop)
            one_s = expected_one_s(self._latency, self._slo_s)
            if now + (self._latency.seconds(take) if take > 1 else one_s) <= at:
                return Move(drop=drop, take=take)
        return Move(drop=len(due))

    def observe(self, size: int, seconds: float) -> None:
        self._latency.observe(size, seconds)


def expected_one_s(latency: BatchLatency, slo_s: float) -> float:
    """Expect what one item takes; nothing if that is too long, or nobody would ever find out."""
    seconds = latency.seconds(1)
    return seconds if seconds <= slo_s else 0.0
