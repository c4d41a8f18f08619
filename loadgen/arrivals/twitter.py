"""Rates like those of the Twitter trace: days, noise that wanders, and spikes. Pure.

The trace (archive.org, 2018) is what Argus (§5.1) and Proteus (§6.1.3) measure under: diurnal, with
unexpected spikes, sped up as a whole. Its rates are not printed; fitted here is what is said of
them. A fleet for the peak minute is used to 37 to 60 % (Argus §5.3), so the mean is that part of
the peak; the lowest minute is to the highest as 40 to 540 (the range of Argus' Fig. 17).
"""

import math

import numpy as np
from numpy.typing import NDArray

from loadgen.arrivals.varying import RateCurve

DAYS = 2  #: however long the run is
TROUGH = 0.125  #: rate of the night, in that of the day, without noise and spikes
SPIKES_AN_HOUR = 4
HEIGHT = (0.2, 0.6)  #: of a spike, in what is asked for otherwise
RISE_S, FADE_S = (5.0, 60.0), (30.0, 180.0)
WANDERS, WITHIN_S = 0.09, 300.0  #: relative noise, and how long it stays alike

Rates = NDArray[np.float64]


def twitter_like(duration_s: float, *, seed: int) -> RateCurve:
    """Draw a rate for each second, one on average: two days in this time, noise, and spikes."""
    rng = np.random.default_rng([seed, 2])
    at = np.arange(math.ceil(duration_s) + 1, dtype=np.float64)
    day = 0.5 - 0.5 * np.cos(2 * np.pi * DAYS * at / len(at))
    rates = (TROUGH + (1 - TROUGH) * day) * np.exp(_noise(len(at), rng))
    rates *= 1 + _spikes(at, rng)
    return RateCurve(at_s=np.minimum(at, duration_s), per_s=rates).with_mean(1.0)


def _spikes(at: Rates, rng: np.random.Generator) -> Rates:
    total = np.zeros(len(at))
    for begin in rng.integers(0, len(at), round(SPIKES_AN_HOUR * len(at) / 3600)):
        height, rise_s, fade_s = (rng.uniform(*each) for each in (HEIGHT, RISE_S, FADE_S))
        since = at[begin:] - at[begin]
        fading = np.exp(-np.maximum(since - rise_s, 0) / fade_s)
        total[begin:] += height * np.minimum(since / rise_s, 1) * fading
    return total


def _noise(count: int, rng: np.random.Generator) -> Rates:
    keep = math.exp(-1 / WITHIN_S)
    steps = rng.normal(0, WANDERS * math.sqrt(1 - keep**2), count)
    noise, level = np.empty(count), 0.0
    for i, step in enumerate(steps):
        level = keep * level + step
        noise[i] = level
    return noise
