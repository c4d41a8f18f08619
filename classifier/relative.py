"""Optimal level of a prompt: the fastest that keeps most of its best quality. Pure."""

import numpy as np
from numpy.typing import NDArray

#: Quality of the best level that an optimal one keeps (Argus §3, delta).
KEPT = 0.9

Qualities = NDArray[np.floating]


def relative(quality: Qualities) -> Qualities:
    """Divide the quality of each level by that of the prompt's best.

    Shapes: [P, L] -> [P, L] in [0, 1]. Where every level fails alike none is worse than another: 1.
    """
    best = quality.max(axis=1, keepdims=True)
    return np.asarray(np.divide(quality, best, out=np.ones_like(quality), where=best > 0))


def optimal(quality: Qualities, kept: float = KEPT) -> NDArray[np.int64]:
    """Choose for each prompt the fastest level that keeps so much of its best quality.

    Shapes: [P, L], fastest level first -> [P].
    Source: Argus §3, "Optimal Model".
    """
    return np.asarray((relative(quality) >= kept - 1e-9).argmax(axis=1))
