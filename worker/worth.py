"""What is a score worth? A curve from scores to qualities, beside the scorer's weights."""

from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from core.errors import ConfigurationError

FILE = "worth.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """How a scorer's scores compare with the qualities that plans are made of."""

    scores: tuple[float, ...]  #: growing
    qualities: tuple[float, ...]  #: that images of these scores have on average, never falling

    def quality(self, score: float) -> float:
        """Give the quality that images of this score have on average, in [0, 1]."""
        return float(np.interp(score, self.scores, self.qualities))


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
