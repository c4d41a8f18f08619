"""Arrival processes: times from rate, duration and seed. Pure and reproducible."""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]


class Pattern(StrEnum):
    """How the gaps between arrivals are made."""

    CONSTANT = "constant"  #: every gap is 1 / rate
    POISSON = "poisson"  #: exponential gaps: many independent people
    GAMMA = "gamma"  #: gaps with a chosen coefficient of variation: above 1 comes in bursts


def constant(rate: float, duration_s: float) -> Seconds:
    """Space arrivals evenly, the first at zero.

    Units: rate in requests/s -> seconds after the start, below duration_s
    """
    spaced = np.arange(np.ceil(rate * duration_s) + 1) / rate
    return spaced[spaced < duration_s]


def gamma(rate: float, duration_s: float, *, cv: float, seed: int) -> Seconds:
    """Draw independent Gamma gaps of mean 1 / rate and standard deviation cv / rate.

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


def varying(at_s: Sequence[float], rates: Sequence[float], *, seed: int) -> Seconds:
    """Draw a Poisson process whose rate goes along straight lines between given moments.

    Args:
        at_s: moments, rising, the first at 0; arrivals end with the last.
        rates: requests/s at each of them.
    """
    moments = np.linspace(0.0, at_s[-1], 1000)
    rate = np.interp(moments, at_s, rates)
    expected = np.concatenate(
        [[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2 * np.diff(moments))]
    )  # so many by then
    unit = poisson(1.0, float(expected[-1]), seed=seed)
    return np.interp(unit, expected, moments).astype(np.float64)


def arrive(
    pattern: Pattern, rate: float, duration_s: float, *, cv: float = 2.0, seed: int = 0
) -> Seconds:
    """Draw the arrivals of a pattern; cv counts for `gamma` only."""
    if pattern is Pattern.CONSTANT:
        return constant(rate, duration_s)
    if pattern is Pattern.POISSON:
        return poisson(rate, duration_s, seed=seed)
    return gamma(rate, duration_s, cv=cv, seed=seed)
