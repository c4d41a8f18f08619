"""Calibration curve from scores to image quality, stored beside the scorer's weights.

The curve is a regression, so it shrinks: where the scorer sees no fault the curve says what images
like that have on average, and a fall of quality shows as a smaller one. How much smaller differs
by level, as some draw faults that are seen better than others, and was measured; so it is undone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from core.errors import ConfigurationError

FILE = "worth.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrinkage:
    """What the curve makes of images of known quality: offset + slope * quality, on average."""

    offset: float
    slope: float  #: above 0; 1 would be a scorer that sees every fault
    variance: float  #: of what it says of single images about that line


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """An unbiased estimate of what the exact checker would say of one image."""

    quality: float  #: may be below 0 or above 1: only so its mean over many images is right
    variance: float  #: of what it is off by


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """How a scorer's scores compare with the qualities that plans are made of."""

    scores: tuple[float, ...]  #: growing
    qualities: tuple[float, ...]  #: that images of these scores have on average, never falling
    levels: Mapping[str, Shrinkage]  #: by level
    other: Shrinkage  #: of levels that were not measured

    def quality(self, score: float) -> float:
        """Give the quality that images of this score have on average, in [0, 1]."""
        return float(np.interp(score, self.scores, self.qualities))

    def estimate(self, score: float, level: str) -> Estimate:
        """Ask of which quality the curve says this at a level (classical calibration).

        Source: Krutchkoff 1967.
        """
        line = self.levels.get(level, self.other)
        quality = (self.quality(score) - line.offset) / line.slope
        return Estimate(quality=quality, variance=self.variance(level))

    def variance(self, level: str) -> float:
        """Say how far off an estimate is, squared, on average."""
        line = self.levels.get(level, self.other)
        return line.variance / line.slope**2


def read_worth(folder: Path) -> Worth:
    """Read the curve of a scorer.

    Raises:
        ConfigurationError: there is none; the message names the file.
    """
    path = folder / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Worth)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
