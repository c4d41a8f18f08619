"""Rates that synthetic loads go along, one on average. Pure."""

import numpy as np

from loadgen.arrivals.varying import RateCurve

#: Low and high rate of macro-scale bursts, and the seconds that each stays on average.
CALM, BUSY = 0.5, 2.0
CALM_S, BUSY_S = 120.0, 60.0
#: Requests a minute at both ends of Argus' diagonal (§5.1), in about 800 minutes.
DIAGONAL = (50.0, 600.0)
#: A ramp: low at first, along a slope to the high, and back; of these lengths.
LOW, HIGH = 0.3, 1.5
COURSE = (0.0, 0.1, 0.4, 0.55, 0.65, 1.0)


def square(duration_s: float, *, period_s: float, low: float = 0.5, high: float = 1.5) -> RateCurve:
    """Jump between a low and a high rate, each for half a period; low first."""
    halves = int(np.ceil(2 * duration_s / period_s))
    edges = np.minimum(np.arange(halves + 1) * period_s / 2, duration_s)
    return _steps(edges, np.where(np.arange(halves) % 2, high, low)).with_mean(1.0)


def bursts(duration_s: float, *, seed: int) -> RateCurve:
    """Put busy stretches of random length between calm ones.

    Source: the macro-scale bursts of Proteus §6.3, Fig. 5 and Argus §5.1: flat low, then high.
    """
    rng = np.random.default_rng([seed, 1])
    pairs = int(np.ceil(duration_s / (CALM_S + BUSY_S))) * 4 + 8
    lengths = rng.uniform(0.5, 1.5, 2 * pairs) * np.tile([CALM_S, BUSY_S], pairs)
    scale = min(1.0, duration_s / (CALM_S + BUSY_S))  # a short run has a burst too
    edges = np.concatenate([[0.0], np.cumsum(lengths * scale)])
    edges = np.minimum(edges[: np.searchsorted(edges, duration_s) + 1], duration_s)
    rates = np.where(np.arange(len(edges) - 1) % 2, BUSY, CALM)
    return _steps(edges, rates).with_mean(1.0)


def diagonal(duration_s: float) -> RateCurve:
    """Rise from the first moment to the last.

    Source: Argus §5.1: 50 requests a minute at first, 600 in the end
    """
    return RateCurve(at_s=np.array([0.0, duration_s]), per_s=np.array(DIAGONAL)).with_mean(1.0)


def ramp(duration_s: float) -> RateCurve:
    """Stay low, rise to five times that, stay there, fall, and stay low again."""
    per_s = np.array([LOW, LOW, HIGH, HIGH, LOW, LOW])
    return RateCurve(at_s=np.array(COURSE) * duration_s, per_s=per_s).with_mean(1.0)


def _steps(
    edges: "np.typing.NDArray[np.float64]", rates: "np.typing.NDArray[np.float64]"
) -> RateCurve:
    """Hold each rate from its edge to the next. Shapes: [N + 1], [N]."""
    return RateCurve(at_s=np.repeat(edges, 2)[1:-1], per_s=np.repeat(rates.astype(np.float64), 2))
