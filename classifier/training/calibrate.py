"""Calibrate predicted qualities (Platt scaling) and measure the error. Pure."""

import numpy as np
from numpy.typing import NDArray

from classifier.encoder.encoder import Floats

#: Bins of equally many predictions that the calibration error is averaged over.
BINS = 10
#: A slope of 1 counts as much as so many images: few labels move a level's scale little. An offset
#: of 0 counts less, but it counts: the mean of few estimates may lie above 1, where no logit is.
PRIOR, PRIOR_OFFSET = 20.0, 1.0
STEPS = 30  #: of Newton's method; it is there after ten


def platt(logits: Floats, quality: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Find a slope and an offset for each level by Newton's method (Platt 1999).

    Shapes: [P, L] each -> [L], [L].
    """
    slopes, offsets = np.ones(logits.shape[1]), np.zeros(logits.shape[1])
    for level in range(logits.shape[1]):
        has = weights[:, level] > 0
        if has.any():
            columns = (each[has, level].astype(np.float64) for each in (logits, quality, weights))
            slopes[level], offsets[level] = _scale(*columns)
    return slopes.astype(np.float32), offsets.astype(np.float32)


def _scale(
    logits: NDArray[np.float64], quality: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[float, float]:
    known, at = np.stack([logits, np.ones_like(logits)]), np.array([1.0, 0.0])
    prior = np.array([PRIOR, PRIOR_OFFSET])
    for _ in range(STEPS):
        share = 1 / (1 + np.exp(-np.clip(at @ known, -30, 30)))
        slack = prior * (at - (1.0, 0.0))
        gradient = known @ ((share - quality) * weights) + slack
        bend = (known * (share * (1 - share) * weights)) @ known.T + np.diag(prior)
        at = at - np.clip(np.linalg.solve(bend, gradient), -1, 1)  # far off it would overshoot
    return float(at[0]), float(at[1])


def calibration_error(predicted: Floats, quality: Floats, weights: Floats) -> float:
    """Average how far the mean quality of alike predictions is from what was predicted.

    Shapes: [P, L] each.
    """
    has = weights > 0
    said, found, weight = predicted[has], quality[has], weights[has]
    order = np.argsort(said, kind="stable")
    off = 0.0
    for rows in np.array_split(order, BINS):
        if len(rows):
            off += abs(float(((said - found) * weight)[rows].sum()))
    return off / max(1e-6, float(weight.sum()))
