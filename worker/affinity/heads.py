"""How well does each level draw a prompt with these features? A small network, in numpy. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from worker.affinity.encoder import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Heads:
    """One hidden layer that all levels share, and a logistic output for each."""

    inner: Floats  #: [F, H]
    inner_bias: Floats  #: [H]
    outer: Floats  #: [H, L]
    outer_bias: Floats  #: [L]

    def logits(self, features: Floats) -> Floats:
        """Say how likely a right picture is. Shapes: [P, F] -> [P, L]."""
        hidden = np.maximum(features @ self.inner + self.inner_bias, 0)
        return np.asarray(hidden @ self.outer + self.outer_bias)

    def __call__(self, features: Floats) -> Floats:
        """Expect the quality of an image. Shapes: [P, F] -> [P, L] in (0, 1)."""
        return sigmoid(self.logits(features))

    def rescaled(self, slope: Floats, offset: Floats) -> "Heads":
        """Put each level's logits on another scale. Shapes: [L], [L]."""
        return replace(self, outer=self.outer * slope, outer_bias=self.outer_bias * slope + offset)


def sigmoid(logits: Floats) -> Floats:
    """Turn logits into shares."""
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -30, 30))), np.float32)


def averaged(several: Sequence[Heads]) -> Heads:
    """Join networks into one whose logits are the mean of theirs."""
    return Heads(
        inner=np.concatenate([each.inner for each in several], axis=1),
        inner_bias=np.concatenate([each.inner_bias for each in several]),
        outer=np.concatenate([each.outer / np.float32(len(several)) for each in several]),
        outer_bias=np.asarray(np.mean([each.outer_bias for each in several], axis=0), np.float32),
    )
