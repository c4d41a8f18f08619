"""Admit claimed jobs in the order of their claims: suspects alone, all others side by side. Pure.

A job is a suspect if a worker was lost while it made it. It waits until what began before it is
made, and what comes after it waits until it has ended: neither can wait for ever.
"""

from collections import deque

from worker.jobs.claimed import ClaimedJob


class Admission:
    """Who may begin. Not thread-safe: it belongs to the maker's lock."""

    def __init__(self) -> None:
        self._waiting: deque[ClaimedJob] = deque()
        self._begun: set[ClaimedJob] = set()

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def add(self, held: ClaimedJob) -> None:
        """Let a job wait for its turn."""
        self._waiting.append(held)

    def take(self) -> ClaimedJob | None:
        """Return the next job that may begin now, if there is one."""
        if not self._waiting or not self._may_begin(self._waiting[0]):
            return None
        held = self._waiting.popleft()
        self._begun.add(held)
        return held

    def withdraw(self, held: ClaimedJob) -> bool:
        """Take out a job that waits; say no if it has begun or ended."""
        is_waiting = held in self._waiting
        if is_waiting:
            self._waiting.remove(held)
        return is_waiting

    def end(self, held: ClaimedJob) -> None:
        """Note that nothing is left to do for a job."""
        self._begun.discard(held)

    def _may_begin(self, held: ClaimedJob) -> bool:
        if any(each.claim.job.is_suspect for each in self._begun):
            return False
        return not held.claim.job.is_suspect or all(each.is_made for each in self._begun)
