"""Share requests among things of unequal popularity, by Zipf's law. Pure."""

import numpy as np
from numpy.typing import NDArray

#: Exponent of the popularity of applications (Proteus §6.1.3).
APPLICATIONS = 1.001

Shares = NDArray[np.float64]


def zipf(count: int, exponent: float = APPLICATIONS) -> Shares:
    """Share one among `count` things: the k-th gets 1 / k^exponent of the first's part."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum(), np.float64)


def choose(shares: Shares, size: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Draw indices by their shares; in memory proportional to what is drawn."""
    ends = np.cumsum(shares)
    drawn = np.searchsorted(ends, rng.random(size) * ends[-1], side="right")
    return np.asarray(np.minimum(drawn, len(shares) - 1), np.int32)
