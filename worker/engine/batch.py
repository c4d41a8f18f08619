"""Select the slots of the next forward pass within row limits. Pure."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from worker.diffusion.runner import Group


class Candidate(Protocol):
    """What is known of a running slot when the next batch is chosen."""

    @property
    def order(self) -> tuple[float, str, int]:
        """Due time, then job id and image index, so that no two are equal."""
        ...

    @property
    def group(self) -> Group: ...

    @property
    def rows(self) -> int: ...


C = TypeVar("C", bound=Candidate)


def earliest(running: Sequence[C]) -> C:
    """The slot that is due first."""
    return min(running, key=lambda slot: slot.order)


def choose_batch(running: Sequence[C], max_rows: int) -> list[C]:
    """Choose the slots of the next forward pass: the one due first, then its look-alikes.

    They share model, latent shape and text length, and need not share a timestep. The first is
    taken even if it alone has more than `max_rows`. Due times are fixed when a job is accepted,
    so only finitely many jobs are ever ahead of one: nobody starves.
    """
    if not running:
        return []
    first = earliest(running)
    alike = sorted((s for s in running if s.group == first.group), key=lambda slot: slot.order)
    chosen, rows = alike[:1], first.rows
    for slot in alike[1:]:
        if rows + slot.rows <= max_rows:
            chosen.append(slot)
            rows += slot.rows
    return chosen


class RowCaps:
    """How many rows of each group fit in memory: halved when they do not, grown back slowly."""

    def __init__(self, max_rows: int, *, patience: int = 50) -> None:
        self.max_rows = max_rows
        self.patience = patience  #: good steps at the cap before one more row is tried
        self._caps: dict[Group, int] = {}
        self._good: dict[Group, int] = {}

    def rows(self, group: Group) -> int:
        """Rows that this group may use now."""
        return self._caps.get(group, self.max_rows)

    def halve(self, group: Group, rows: int) -> None:
        """Note that so many rows did not fit."""
        self._caps[group] = max(1, min(rows, self.rows(group)) // 2)
        self._good[group] = 0

    def grow(self, group: Group, rows: int) -> None:
        """Note that so many rows did fit."""
        cap = self._caps.get(group)
        if cap is None or rows + 1 < cap:
            return
        self._good[group] += 1
        if self._good[group] < self.patience:
            return
        self._good[group] = 0
        self._caps[group] = cap + 1
        if self._caps[group] >= self.max_rows:
            del self._caps[group], self._good[group]
