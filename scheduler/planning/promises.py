"""Learn by how much plans promise more quality than jobs get where they are placed. Pure."""

import math
from dataclasses import dataclass, field

from scheduler.placement.overflow import PlacedQuality

JOBS = 300.0  #: after so many a difference weighs a third


@dataclass(slots=True)
class Promises:
    """Knows what the plan in force promised, and how far promises were off lately."""

    _above: float = 0.0  #: what jobs got, on average
    _before: PlacedQuality = field(
        default_factory=PlacedQuality
    )  #: what was placed when the last plan was made
    _expected: float | None = None  #: of that plan

    def see(self, placed: PlacedQuality) -> None:
        """Hold the last plan against the jobs that were placed since it was made."""
        jobs = placed.jobs - self._before.jobs
        if self._expected is not None and jobs > 0:
            got = (placed.quality - self._before.quality) / jobs
            self._above += -math.expm1(-jobs / JOBS) * (self._expected - got - self._above)
        self._before = placed

    def promise(self, expected: float | None) -> float | None:
        """Promise what is expected of a plan, less what jobs lacked under the last ones."""
        self._expected = expected
        return None if expected is None else min(1.0, max(0.0, expected - self._above))
