"""Level kernel: similarity of levels by model and approximation. Pure.

Levels of one model that leave out nearly as much, in the same way, make nearly the same images.
"""

from collections.abc import Sequence

import numpy as np

from classifier.encoder.encoder import Floats
from core.levels.approximation import Approximation
from core.levels.level import Level

SHARED = 0.6  #: of what there is to learn of a prompt, goes for all levels
FAR = 0.25  #: of the steps, between two levels of one model that have little more in common


def kin(levels: Sequence[str]) -> Floats:
    """Say how alike levels are: 1 for a level and itself. Shapes: [L, L]."""
    known = [Level.read(name) for name in levels]
    model = np.array([level.model for level in known])
    kinds = sorted({type(level.approximation) for level in known}, key=lambda kind: kind.__name__)
    left_out = np.array([[_left_out(level, kind) for kind in kinds] for level in known])
    apart = np.abs(left_out[:, None] - left_out).sum(axis=2)
    near = np.exp(-apart / FAR) * (model[:, None] == model)
    return np.asarray(SHARED + (1 - SHARED) * near, np.float32)


def _left_out(level: Level, kind: type[Approximation]) -> float:
    """Say which part of the steps a level leaves out in one way."""
    approximation = level.approximation
    return 1.0 - approximation.share_of_steps if type(approximation) is kind else 0.0
