"""Decide whether a slow link justifies residuals of the step before. Pure."""

from dataclasses import dataclass
from enum import StrEnum

#: Share of a step that the link alone must cost before its residuals are used a step late.
WORTH = 0.1
#: Steps that are measured before that is decided.
ENOUGH = 2
#: Weight of the newest step.
_SMOOTHING = 0.3


class Stale(StrEnum):
    """Whether a step may use the residuals of the step before (Katz, section 5)."""

    AUTO = "auto"  #: where the link is slow, unless a job asks for exact quality
    NEVER = "never"
    ALWAYS = "always"


@dataclass(slots=True)
class Lag:
    """What the steps over one link have lost by waiting for it."""

    lost_share: float = 0.0  #: of a step, smoothed
    steps: int = 0  #: measured

    def note(self, *, step_s: float, lost_s: float) -> None:
        """Note how long a step took, and how much of that it waited for the link alone."""
        if step_s <= 0:
            return
        share = lost_s / step_s
        weight = _SMOOTHING if self.steps else 1.0
        self.lost_share += weight * (share - self.lost_share)
        self.steps += 1

    @property
    def is_slow(self) -> bool | None:
        """Whether waiting for it costs too much; None while that is not known."""
        return self.lost_share >= WORTH if self.steps >= ENOUGH else None
