"""Level kernel: similarity of levels by model and skipped steps. Pure.

Levels of one model that skip nearly the same steps go on from nearly the same latents.
"""

from collections.abc import Sequence

import numpy as np

from classifier.encoder.encoder import Floats
from core.variant import Level

SHARED = 0.6  #: of what there is to learn of a prompt, goes for all levels
FAR = 12.5  #: skipped steps between two levels of one model that have little more in common


def kin(levels: Sequence[str]) -> Floats:
    """Say how alike levels are: 1 for a level and itself. Shapes: [L, L]."""
    known = [Level.read(name) for name in levels]
    model = np.array([level.model for level in known])
    skipped = np.array([level.skipped_steps for level in known])
    near = np.exp(-np.abs(skipped[:, None] - skipped) / FAR) * (model[:, None] == model)
    return np.asarray(SHARED + (1 - SHARED) * near, np.float32)
