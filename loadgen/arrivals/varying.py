"""Draw arrivals along a rate that varies. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from loadgen.arrivals.gaps import Seconds, gamma


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RateCurve:
    """A rate that goes along straight lines; it jumps where two moments are equal."""

    at_s: Seconds  #: moments, rising, the first at 0
    per_s: Seconds  #: requests/s at each of them

    @property
    def expected(self) -> Seconds:
        """Count the requests that are expected by each moment."""
        each = (self.per_s[1:] + self.per_s[:-1]) / 2 * np.diff(self.at_s)
        return np.concatenate([[0.0], np.cumsum(each)])

    def with_mean(self, rate: float) -> "RateCurve":
        """Scale it so that it is so high on average."""
        mean = self.expected[-1] / self.at_s[-1]
        return replace(self, per_s=self.per_s * (rate / mean))


def along(curve: RateCurve, *, cv: float = 1.0, seed: int) -> Seconds:
    """Draw arrivals whose rate is the curve's: a renewal process in stretched time.

    Args:
        cv: of the gaps; 1 is a Poisson process.
    """
    expected = curve.expected
    unit = gamma(1.0, float(expected[-1]), cv=cv, seed=seed)
    left = np.minimum(np.searchsorted(expected, unit, side="right"), len(expected) - 1) - 1
    width, low = curve.at_s[left + 1] - curve.at_s[left], curve.per_s[left]
    slope = (curve.per_s[left + 1] - low) / width
    over = unit - expected[left]
    root = np.sqrt(np.maximum(low**2 + 2 * slope * over, 0.0))
    since = np.divide(2 * over, low + root, out=np.zeros(len(unit)), where=over > 0)
    return np.asarray(curve.at_s[left] + np.minimum(since, width), np.float64)


def varying(
    at_s: Sequence[float], rates: Sequence[float], *, cv: float = 1.0, seed: int
) -> Seconds:
    """Draw arrivals whose rate goes along straight lines between given moments.

    Args:
        at_s: moments, rising, the first at 0; arrivals end with the last.
        rates: requests/s at each of them.
    """
    curve = RateCurve(at_s=np.asarray(at_s, np.float64), per_s=np.asarray(rates, np.float64))
    return along(curve, cv=cv, seed=seed)
