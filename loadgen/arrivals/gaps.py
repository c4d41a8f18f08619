"""Draw arrivals whose gaps do not depend on each other. Pure."""

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]


def constant(rate: float, duration_s: float) -> Seconds:
    """Space arrivals evenly, the first at zero.

    Units: rate in requests/s -> seconds after the start, below duration_s
    """
    spaced = np.arange(np.ceil(rate * duration_s) + 1) / rate
    return spaced[spaced < duration_s]


def gamma(rate: float, duration_s: float, *, cv: float, seed: int) -> Seconds:
    """Draw independent Gamma gaps of mean 1 / rate and standard deviation cv / rate.

    Their shape is 1 / cv²: Proteus (§6.4) takes .05 for bursts, which is a cv of 4.47.

    Units: rate in requests/s -> seconds after the start, rising, below duration_s
    """
    rng = np.random.default_rng(seed)
    chunk = int(np.ceil(rate * duration_s)) + 16
    seconds = np.zeros(1)
    while seconds[-1] < duration_s:
        gaps = rng.gamma(1 / cv**2, cv**2 / rate, size=chunk)
        seconds = np.concatenate([seconds, seconds[-1] + np.cumsum(gaps)])
    drawn = seconds[1:]
    return drawn[drawn < duration_s]


def poisson(rate: float, duration_s: float, *, seed: int) -> Seconds:
    """Draw a Poisson process: Gamma gaps whose coefficient of variation is one."""
    return gamma(rate, duration_s, cv=1.0, seed=seed)
