"""A second pass: a finished image is scaled up and made again from there, in the same job. Pure."""

from dataclasses import dataclass

#: Pixels that each side of the larger image is a multiple of: rounded down.
MULTIPLE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondPass:
    """How a finished image is made larger (in other front ends: hires fix)."""

    scale: float  #: of each side
    strength: float  #: share of the schedule that is run again
    steps: int | None = None  #: of that schedule; None: as many as at first

    def side(self, first: int) -> int:
        """Give a side of the larger image, in pixels."""
        return int(round(first * self.scale, 6)) // MULTIPLE * MULTIPLE

    def share(self, steps: int) -> float:
        """Say what it takes, in whole schedules of so many steps at the size of the first."""
        own = steps if self.steps is None else self.steps
        return self.scale**2 * self.strength * own / steps
