"""Drift detector: classifier residuals in, alarms out. Pure.

Argus §4.1 retrains when the median score of a window falls below the moving average of the
windows before. A lower level lowers scores too, though, and the plan chooses lower levels under
load; so what is watched here is not the score itself but how far it is from what the classifier
predicted of this prompt at this level (docs/adr/0013). An image is either right or has a fault, so
the median of single images hardly moves; it is taken of the means of some images each.
"""

from collections import deque
from dataclasses import dataclass
from statistics import fmean, median

MIN_WINDOWS = 2  #: before their average says what is normal


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftLimits:
    """When is a fall a drift?"""

    batch: int = 10  #: images of one mean
    window: int = 20  #: means of one median
    #: Of quality, that a median must be below the average. One image is off by .4, as estimates are
    #: unbiased (score_curve), so a median is by .036: three times that is next to no luck.
    margin: float = 0.11
    memory: int = 10  #: windows averaged
    cooldown: int = 3  #: windows after an alarm that raise none


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityDrift:
    """A fall of quality against what was predicted."""

    median: float  #: of the window
    average: float  #: of the medians before
    samples: int  #: images seen since the classifier came into force


class DriftDetector:
    """Watches the residuals of one classifier: quality found, less quality predicted."""

    def __init__(self, limits: DriftLimits | None = None) -> None:
        self._limits = limits or DriftLimits()
        self.reset()

    def reset(self) -> None:
        """Learn anew what is normal: another classifier is in force."""
        self.median: float | None = None  #: of the last whole window
        self._batch: list[float] = []
        self._window: list[float] = []  #: means
        self._normal: deque[float] = deque(maxlen=self._limits.memory)
        self._resting = 0  #: windows of the cooldown that are left
        self._samples = 0

    @property
    def average(self) -> float | None:
        """Average the medians that count as normal; None while they are too few."""
        return fmean(self._normal) if len(self._normal) >= MIN_WINDOWS else None

    def observe(self, residual: float) -> QualityDrift | None:
        """Take in one image; say so if the window it ends has fallen.

        An alarm and its cooldown do not change what is normal: a fall that stays raises the
        alarm again, when there are more images to learn from.
        """
        self._samples += 1
        self._batch.append(residual)
        if len(self._batch) == self._limits.batch:
            self._window.append(fmean(self._batch))
            self._batch = []
        if len(self._window) < self._limits.window:
            return None
        self.median, self._window = median(self._window), []
        if self._resting:
            self._resting -= 1
            return None
        average = self.average
        if average is None or self.median >= average - self._limits.margin:
            self._normal.append(self.median)
            return None
        self._resting = self._limits.cooldown
        return QualityDrift(median=self.median, average=average, samples=self._samples)
