"""Batching policies that the scheduler does not use, to compare with the one that it does."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduler.service.batching import BatchLatency, BatchPolicy, Move, Nexus, expected_one_s

#: Nobody waits for less: a clock may be no finer.
INSTANT_S = 1e-4


class Batching(StrEnum):
    """When items that come one by one are run together."""

    PROTEUS = "proteus"  #: waits for more as long as the first can wait (Proteus, section 5)
    NEXUS = "nexus"  #: never waits, and gives up what would keep a batch small; the scheduler's
    AIMD = "aimd"  #: never waits; grows until a batch is late, then shrinks by a tenth (Clipper)
    STATIC = "static"  #: one size, waited for no longer than a part of the time there is


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(Move):
    """A move of a policy that may take none and wait for more."""

    until: float  #: when to ask again, or once another one comes


def until(move: Move) -> float:
    """Say when to ask a policy again if no other item comes."""
    return move.until if isinstance(move, Wait) else math.inf


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
        drop = _hopeless(due, now + expected_one_s(latency, self._slo_s))
        if drop == len(due):
            return Move(drop=drop)
        waiting, left_s = len(due) - drop, due[drop] - now
        size = max(1, latency.largest(left_s, min(waiting, self._most)))
        if size < min(waiting, latency.largest(self._slo_s / 2, self._most)):
            return self._overload.decide(due, now)
        wait_s = left_s - latency.seconds(size + 1)
        if size == waiting < self._most and wait_s > INSTANT_S:
            return Wait(drop=drop, until=now + wait_s)
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
        patient = due[drop] - self._spare_s
        if waiting < self._size and patient - now > INSTANT_S:
            return Wait(drop=drop, until=patient)
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


def _hopeless(due: Sequence[float], earliest: float) -> int:
    """Count the first items that are due before anything could be done."""
    return next((i for i, at in enumerate(due) if at >= earliest), len(due))
