"""What a fleet shall keep, and what days of load say of whether it does. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from scipy.special import stdtrit

from reporting.table import Interval
from simulator.report.costs import Prices

Fleet = Mapping[str, int]  #: device type -> workers
Split = Mapping[str, float]  #: device type -> workers, parts of them too

TIMES = "\u00d7"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What is promised."""

    max_late: float = 0.01  #: share of the jobs
    min_quality: float = 0.9  #: mean of the images made
    confidence: float = 0.95  #: that both hold for the mean over days like the one given


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """What one day of load came to on one fleet."""

    jobs: int
    late: float
    quality: float
    goodput: float
    utilisation: float
    images: float  #: that were made
    reach_s: float  #: an SLO of so many seconds would have kept `max_late`; inf: none would
    levels: Mapping[str, float] = field(default_factory=dict)  #: level -> share of the jobs made


class Verdict(StrEnum):
    """Whether a fleet keeps a goal."""

    KEEPS = "keeps both"
    LATE = "late too often"
    POOR = "quality too low"
    BOTH = "late too often, quality too low"

    @classmethod
    def of(cls, *, is_late: bool, is_poor: bool) -> "Verdict":
        """Name what is missed."""
        if is_late:
            return cls.BOTH if is_poor else cls.LATE
        return cls.POOR if is_poor else cls.KEEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTrial:
    """A fleet, the days it went through, and what they say."""

    fleet: Fleet
    days: tuple[Day, ...]
    late: Interval
    quality: Interval
    verdict: Verdict

    @property
    def keeps(self) -> bool:
        """Whether the goal is kept."""
        return self.verdict is Verdict.KEEPS


#: A day that misses by so much decides alone: late jobs in goals, and points of quality.
HOPELESS_LATE, HOPELESS_QUALITY = 4.0, 0.03


def judge(fleet: Fleet, days: Sequence[Day], goal: Goal) -> FleetTrial:
    """Hold days against a goal: the bound of the mean at its confidence must keep it."""
    late = estimate([day.late for day in days], goal.confidence)
    high = min(1.0, max(late.high, unseen(sum(day.jobs for day in days), goal)))
    late = Interval(low=max(0.0, late.low), middle=late.middle, high=high)
    quality = estimate([day.quality for day in days], goal.confidence)
    quality = Interval(low=quality.low, middle=quality.middle, high=min(1.0, quality.high))
    verdict = Verdict.of(is_late=late.high > goal.max_late, is_poor=quality.low < goal.min_quality)
    return FleetTrial(fleet=fleet, days=tuple(days), late=late, quality=quality, verdict=verdict)


def unseen(jobs: int, goal: Goal) -> float:
    """Say what share of late jobs may hide behind so many of which none was late."""
    return -math.log(1 - goal.confidence) / max(1, jobs)


def is_hopeless(trial: FleetTrial, goal: Goal) -> bool:
    """Tell whether more days would change nothing."""
    if len(trial.days) > 1:
        return trial.late.low > goal.max_late or trial.quality.high < goal.min_quality
    far = trial.late.middle > HOPELESS_LATE * goal.max_late + 1 / max(1, trial.days[0].jobs)
    return far or trial.quality.middle < goal.min_quality - HOPELESS_QUALITY


def estimate(figures: Sequence[float], confidence: float) -> Interval:
    """Bound a mean from either side by Student's t, each bound with this confidence."""
    middle = float(np.mean(figures))
    if len(figures) < 2:
        return Interval(low=middle, middle=middle, high=middle)
    error = float(np.std(figures, ddof=1)) / math.sqrt(len(figures))
    reach = float(stdtrit(len(figures) - 1, confidence)) * error
    return Interval(low=middle - reach, middle=middle, high=middle + reach)


def price_of(fleet: Split, prices: Prices) -> float:
    """Add up what a fleet costs an hour."""
    return sum(prices[kind] * count for kind, count in fleet.items())


def name_of(fleet: Fleet) -> str:
    """Write a fleet for people."""
    there = [f"{count} {TIMES} {kind}" for kind, count in fleet.items() if count]
    return " + ".join(there) or "none"
