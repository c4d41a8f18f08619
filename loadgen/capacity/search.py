"""Search the highest rate at which few jobs are late, by noisy trials. Pure.

Near the capacity chance decides who is late, so no trial is believed alone. The share of late jobs
is taken to rise with the rate along a logistic curve of unknown place and steepness; a belief over
both is kept, and the next trial is made where the curve most likely crosses what is allowed. (The
psychometric threshold by Bayes: Watson and Pelli 1983, Kontsevich and Tyler 1999.)

The nearer to the capacity, the slower a queue fills: once the capacity lies between two rates,
trials are longer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Late jobs come in rows: so many together tell as much as one (measured of queues with two and
#: eight servers at .8 to .95 of what they can do: 5 to 25).
ALIKE = 15
#: Part of the trials that may have been spoiled by something else on the host.
SPOILED = 0.01
#: Factor between two trials while no bound is known, and how far bounds may be wrong.
STRIDE, MARGIN = 2.0, 1.3
#: Cells of the belief: rates, and by how much the logit of the share rises with that of the rate.
RATES, STEEPNESS = 300, np.geomspace(5.0, 100.0, 12)
#: Part of the belief that the interval holds.
HELD = 0.8
MAX_TRIALS = 20
#: Times as long are trials once bounds are known: short ones find too high a capacity, and are off
#: by twice as much (four servers: 4.4 % at one sigma for 2.4, in 11 minutes for 18).
LONG = 4

Belief = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What one rate showed."""

    rate: float  #: requests/s
    asked: int  #: and not taken back by their clients
    late: int  #: of them
    is_cut: bool = False  #: it was ended when so many were late; more would have been

    @property
    def share(self) -> float:
        """Part of the requests that were late."""
        return self.late / self.asked if self.asked else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityEstimate:
    """Where the capacity lies."""

    per_s: float  #: requests/s
    low: float  #: four times of five it lies between this
    high: float  #: and this


class CapacitySearch:
    """What is known after some trials."""

    def __init__(self, start: float, *, max_late: float, tolerance: float = 0.05) -> None:
        """Begin at a rate.

        Args:
            max_late: share of late jobs that is allowed.
            tolerance: width of the interval, relative, at which the search ends.
        """
        self._start, self._max_late, self._tolerance = start, max_late, tolerance
        self.trials: list[Trial] = []

    def next_rate(self) -> float | None:
        """Choose the rate of the next trial; None: enough is known, or nobody asks any more."""
        if not self.trials:
            return self._start
        held, broken = self._bounds()
        if len(self.trials) >= MAX_TRIALS or not (held or self.trials[-1].asked):
            return None
        if not broken:
            return max(held) * STRIDE
        if not held:
            return min(broken) / STRIDE
        found = self.estimate()
        return found.per_s if found.high > found.low * (1 + self._tolerance) else None

    def note(self, trial: Trial) -> None:
        """Learn from a trial."""
        self.trials.append(trial)

    @property
    def length(self) -> int:
        """Say how many times as long as the first trial the next one is."""
        return LONG if self.is_bounded else 1

    @property
    def is_bounded(self) -> bool:
        """Whether some rate was kept, and some was not."""
        return all(self._bounds())

    def estimate(self) -> CapacityEstimate:
        """Sum up the trials.

        Raises:
            ValueError: there is no rate yet that was kept, or none that was not.
        """
        held, broken = self._bounds()
        if not (held and broken):
            raise ValueError("the capacity has no bounds yet")
        rates = np.geomspace(min(*held, *broken) / MARGIN, max(*held, *broken) * MARGIN, RATES)
        belief = sum((self._told(trial, rates) for trial in self._telling), np.zeros((1, 1)))
        weights = np.exp(belief - belief.max()).sum(axis=1)
        below = np.cumsum(weights) / weights.sum()
        ends = ((1 - HELD) / 2, 0.5, (1 + HELD) / 2)
        low, middle, high = (float(np.interp(part, below, rates)) for part in ends)
        return CapacityEstimate(per_s=middle, low=low, high=high)

    @property
    def _telling(self) -> Sequence[Trial]:
        """List the trials that tell something: those in which somebody was asked."""
        return [trial for trial in self.trials if trial.asked]

    def _bounds(self) -> tuple[Sequence[float], Sequence[float]]:
        """List the rates that were kept, and those that were not."""
        kept = [each.rate for each in self._telling if each.share <= self._max_late]
        return kept, [each.rate for each in self._telling if each.share > self._max_late]

    def _told(self, trial: Trial, capacities: Belief) -> Belief:
        """Tell how likely a trial is under each belief, in logarithms. Shapes: [C] -> [C, S]"""
        limit = min(max(self._max_late, 0.005), 0.995)
        logit = np.log(limit / (1 - limit)) + STEEPNESS * np.log(trial.rate / capacities)[:, None]
        expected = np.clip(1 / (1 + np.exp(-logit)), 1e-6, 1 - 1e-6)
        seen = min(max(trial.share, 1e-6), 1 - 1e-6)
        apart = seen * np.log(seen / expected)
        apart = apart + (1 - seen) * np.log((1 - seen) / (1 - expected))
        if trial.is_cut:  # it saw as many at least
            apart = np.where(expected > seen, 0.0, apart)
        likely = np.exp(-trial.asked / ALIKE * apart)
        return np.asarray(np.log(SPOILED + (1 - SPOILED) * likely), np.float64)
