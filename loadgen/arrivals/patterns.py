"""Name the arrival processes and draw one by its name. Pure."""

from collections.abc import Callable
from enum import StrEnum

from loadgen.arrivals.curves import bursts, diagonal, ramp, square
from loadgen.arrivals.gaps import Seconds, constant, gamma, poisson
from loadgen.arrivals.twitter import twitter_like
from loadgen.arrivals.varying import RateCurve, along

#: Coefficient of variation of Gamma gaps of shape .05 (Proteus §6.4).
BURSTY = 20**0.5
PERIOD_S = 120.0  #: of a square wave
#: Longest run, a month: rates are drawn by the second. Largest coefficient of variation: beyond it
#: most gaps are too short for a number.
MAX_RUN_S, MAX_CV = 31 * 86_400.0, 100.0


class Pattern(StrEnum):
    """How arrivals are drawn; the rate is their mean over the whole run."""

    CONSTANT = "constant"  #: every gap is 1 / rate
    POISSON = "poisson"  #: exponential gaps: many independent people
    GAMMA = "gamma"  #: gaps with a chosen coefficient of variation: above 1 comes in bursts
    BURSTS = "bursts"  #: Poisson; busy minutes of random length between calm ones
    SQUARE = "square"  #: Poisson; low and high in turns
    RAMP = "ramp"  #: Poisson; low, up to five times that, and back
    DIAGONAL = "diagonal"  #: Poisson; rises from the start to the end, twelvefold
    DIURNAL = "diurnal"  #: Poisson; two days with spikes, like the Twitter trace


def arrive(
    pattern: Pattern,
    rate: float,
    duration_s: float,
    *,
    cv: float = BURSTY,
    period_s: float = PERIOD_S,
    seed: int = 0,
) -> Seconds:
    """Draw the arrivals of a pattern.

    Args:
        rate: requests/s, on average over the run.
        cv: counts for `gamma` only.
        period_s: counts for `square` only.
    """
    match pattern:
        case Pattern.CONSTANT:
            return constant(rate, duration_s)
        case Pattern.POISSON:
            return poisson(rate, duration_s, seed=seed)
        case Pattern.GAMMA:
            return gamma(rate, duration_s, cv=cv, seed=seed)
    curve = curve_of(pattern, duration_s, period_s=period_s, seed=seed).with_mean(rate)
    seconds = along(curve, seed=seed)
    return seconds[seconds < duration_s]


def curve_of(
    pattern: Pattern, duration_s: float, *, period_s: float = PERIOD_S, seed: int = 0
) -> RateCurve:
    """Draw the rate of a pattern over time, one on average.

    Raises:
        KeyError: the pattern has one rate throughout.
    """
    curves: dict[Pattern, Callable[[], RateCurve]] = {
        Pattern.BURSTS: lambda: bursts(duration_s, seed=seed),
        Pattern.SQUARE: lambda: square(duration_s, period_s=period_s),
        Pattern.RAMP: lambda: ramp(duration_s),
        Pattern.DIAGONAL: lambda: diagonal(duration_s),
        Pattern.DIURNAL: lambda: twitter_like(duration_s, seed=seed),
    }
    return curves[pattern]()
