"""What a cell can do, as it publishes it to routers. Pure data.

A curve: what one more job a second is worth to it, by how many it has. It falls: first jobs get the
level that suits them, then lower ones, and beyond the last segment nobody serves them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Jobs that are worth alike."""

    rate: float  #: jobs/s
    worth: float  #: quality that each of them adds, in [0, 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCapacity:
    """What a cell can do, and what is asked of it."""

    segments: tuple[Segment, ...]  #: falling in worth
    demand: float  #: jobs/s

    @property
    def rate(self) -> float:
        """Tell how many jobs a second it can serve."""
        return sum(each.rate for each in self.segments)
