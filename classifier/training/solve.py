"""Conjugate-gradient solver for large symmetric linear systems. Pure."""

from collections.abc import Callable

import numpy as np

from classifier.encoder.encoder import Floats

TOLERANCE = 3e-3  #: of the right side, that may be left; labels are much less certain
ROUNDS = 300  #: 50 to 150 are needed


def solved(apply: Callable[[Floats], Floats], wanted: Floats) -> Floats:
    """Find what a symmetric positive definite operator makes `wanted` of. Any shape.

    Source: Hestenes & Stiefel 1952.
    """
    found, left = np.zeros_like(wanted), wanted.copy()
    towards, size = left.copy(), float(np.vdot(left, left))
    enough = TOLERANCE**2 * size
    for _ in range(ROUNDS):
        if size <= enough:
            break
        made = apply(towards)
        step = size / float(np.vdot(towards, made))
        found += step * towards
        left -= step * made
        before, size = size, float(np.vdot(left, left))
        towards = left + (size / before) * towards
    return found
