"""Variant queues: jobs that wait, and workers that wait for jobs. Pure."""

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from core.boards.fleet import QueueDepth
from simulator.fleet.job import SimulatedJob


class JobTaker(Protocol):
    """Who takes jobs from queues."""

    def wants(self, queue: str) -> bool:
        """Tell whether it takes a job of a queue now."""

    def take(self, job: SimulatedJob, now: float) -> None:
        """Take one."""


class VariantQueue:
    """One queue; whoever has waited longest for a job of it gets the next one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._jobs: deque[SimulatedJob] = deque()
        self._idle: deque[JobTaker] = deque()
        self._listed: set[int] = set()  #: ids of consumers that stand in line

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[SimulatedJob]:
        return iter(self._jobs)

    def push(self, job: SimulatedJob, now: float, *, first: bool = False) -> None:
        """Give a job to a consumer that waits, or have it wait."""
        while self._idle:
            consumer = self._idle.popleft()
            self._listed.discard(id(consumer))
            if consumer.wants(self.name):
                consumer.take(job, now)
                return
        self._jobs.appendleft(job) if first else self._jobs.append(job)

    def pop(self) -> SimulatedJob | None:
        """Give the first job that waits; None: none does."""
        return self._jobs.popleft() if self._jobs else None

    def drop(self, job: SimulatedJob) -> bool:
        """Take a job off the queue; say whether it was there."""
        if job not in self._jobs:
            return False
        self._jobs.remove(job)
        return True

    def wait(self, consumer: JobTaker) -> None:
        """Let a consumer stand in line for the next job."""
        key = id(consumer)
        if key not in self._listed:
            self._listed.add(key)
            self._idle.append(consumer)

    def depth(self, now: float) -> QueueDepth:
        """Say how much waits."""
        oldest_s = now - self._jobs[0].at if self._jobs else 0.0
        return QueueDepth(queue=self.name, waiting=len(self._jobs), oldest_s=oldest_s)


class VariantQueues:
    """All of them by name, made when they are first named."""

    def __init__(self) -> None:
        self._queues: dict[str, VariantQueue] = {}

    def __getitem__(self, name: str) -> VariantQueue:
        found = self._queues.get(name)
        if found is None:
            found = self._queues[name] = VariantQueue(name)
        return found

    def __iter__(self) -> Iterator[VariantQueue]:
        return iter(list(self._queues.values()))
