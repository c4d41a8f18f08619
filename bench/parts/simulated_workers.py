"""Simulated workers with slots in virtual time: a queue and step-level batching.

Like the engine: a worker admits whoever waits before each step, all its images share the step,
and reading a prompt or decoding an image holds up the others. Steps take what was measured of so
many images, give or take a little.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from core.boards.cost import Cost
from scheduler.routing.eta import Station, StationWorker, Work, join

REPORT_S = 1.0  #: workers say so often how much they have; the api has heard it as long ago
JITTER = 0.1  #: of the time of a step, relative


class Drop(StrEnum):
    """When a job is given up that is late, or will be."""

    NEVER = "never"
    LATE = "when late"  #: as soon as its deadline has passed
    DOOR = "at the door"  #: when its deadline cannot be met; and as soon as it has passed


@dataclass(slots=True, kw_only=True)
class Asked:
    """One job and what became of it."""

    at: float  #: s
    steps: int
    deadline_s: float
    predicted_s: float = 0.0  #: until it is done, as said when it came
    is_refused: bool = False
    done_s: float | None = None  #: until it was done; None: it was not made
    left: int = 0  #: steps

    @property
    def deadline_at(self) -> float:
        return self.at + self.deadline_s

    @property
    def is_in_time(self) -> bool:
        return self.done_s is not None and self.done_s <= self.deadline_s


@dataclass(slots=True, kw_only=True)
class Bench:
    """One worker."""

    running: list[Asked] = field(default_factory=list)
    is_idle: bool = True


class Workshop:
    """Workers of one model behind one queue."""

    def __init__(self, cost: Cost, *, workers: int, slots: int, drop: Drop, seed: int) -> None:
        self._cost, self._slots, self._drop = cost, slots, drop
        self._benches = [Bench() for _ in range(workers)]
        self._queue: deque[Asked] = deque()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._count = 0
        self._random = np.random.default_rng(seed)
        self._present = 0  #: images in slots, as last reported
        self._mean_steps = 1.0

    def make(self, jobs: Sequence[Asked]) -> None:
        """Let jobs come and see what becomes of them."""
        self._mean_steps = sum(job.steps for job in jobs) / len(jobs)
        for job in jobs:
            self._at(job.at, lambda now, job=job: self._arrive(job, now))  # type: ignore[misc]
        for second in range(int(jobs[-1].at / REPORT_S) + 1):
            self._at(second * REPORT_S, self._report)
        self.run()

    def run(self) -> None:
        """Do what is to come, until there is nothing more."""
        while self._events:
            now, _, act = heapq.heappop(self._events)
            act(now)

    def station(self) -> Station:
        """See the workers as whoever predicts does."""
        servers = [StationWorker(cost=self._cost, slots=self._slots) for _ in self._benches]
        return join(servers, present=self._present, mean_steps=self._mean_steps)

    def _at(self, when: float, act: Callable[[float], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, act))

    def _report(self, now: float) -> None:
        del now
        self._present = sum(len(bench.running) for bench in self._benches)

    def _arrive(self, job: Asked, now: float) -> None:
        work = Work(steps=job.steps)
        station, ahead = self.station(), len(self._queue)
        job.predicted_s = station.eta_s(work, ahead)
        can_meet = station.can_meet(work, ahead, job.deadline_s)
        job.is_refused = self._drop is Drop.DOOR and not can_meet
        if not job.is_refused:
            self._queue_up(job, now)

    def _queue_up(self, job: Asked, now: float) -> None:
        job.left = job.steps
        self._queue.append(job)
        for bench in self._benches:
            if bench.is_idle:
                bench.is_idle = False
                self._at(now, lambda now, bench=bench: self._turn(bench, now))  # type: ignore[misc]
                return

    def _turn(self, bench: Bench, now: float) -> None:
        """Let those that are done leave, others in, and make a step."""
        half_s = self._cost.fixed_s / 2
        for job in [job for job in bench.running if job.left == 0]:
            now += half_s
            job.done_s = now - job.at
        bench.running = [job for job in bench.running if job.left and not self._is_over(job, now)]
        while self._queue and len(bench.running) < self._slots:
            job = self._queue.popleft()
            if not self._is_over(job, now):
                now += half_s
                bench.running.append(job)
        bench.is_idle = not bench.running
        if bench.is_idle:
            return
        step_s = self._cost.step_s(len(bench.running)) * self._random.lognormal(0, JITTER)
        for job in bench.running:
            job.left -= 1
        self._at(now + step_s, lambda now: self._turn(bench, now))

    def _is_over(self, job: Asked, now: float) -> bool:
        return self._drop is not Drop.NEVER and now > job.deadline_at
