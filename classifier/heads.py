"""Gaussian-process heads: expected quality of each level from prompt features. Pure."""

from dataclasses import dataclass, replace

import numpy as np

from classifier.encoder.encoder import Floats

LENGTH = 0.7  #: how far prompts are alike; on their axes they are about 1 from the mean
LINEAR = 0.5  #: weight of the inner product, beside how near two prompts are
#: No level is expected to be better or worse than this: logits must be finite.
SURE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Heads:
    """Gaussian processes (Rasmussen & Williams 2006, §2) over features: one for each level."""

    project: Floats  #: [F, D], features to the axes along which prompts differ most
    shift: Floats  #: [D]
    known: Floats  #: [N, D], prompts it has learned from
    weights: Floats  #: [N, L], what each of them says of each level
    mean: Floats  #: [L], quality of a level for prompts that nothing is known of
    slope: Floats  #: [L], of logits: calibration
    offset: Floats  #: [L]

    def __call__(self, features: Floats) -> Floats:
        """Expect the quality of an image. Shapes: [P, F] -> [P, L] in (0, 1)."""
        alike = kernel(features @ self.project + self.shift, self.known)
        return sigmoid(logits_of(self.mean + alike @ self.weights) * self.slope + self.offset)

    def calibrated(self, slope: Floats, offset: Floats) -> "Heads":
        """Put the logits of each level on another scale. Shapes: [L], [L]."""
        return replace(self, slope=slope, offset=offset)


def kernel(some: Floats, others: Floats) -> Floats:
    """Say how alike prompts are. Shapes: [P, D], [N, D] -> [P, N]."""
    inner = some @ others.T
    near = inner - np.square(some).sum(axis=1)[:, None] / 2
    near -= np.square(others).sum(axis=1) / 2  # in place: of all labelled prompts this is large
    near /= LENGTH**2
    np.exp(np.minimum(near, 0, out=near), out=near)
    inner *= LINEAR
    near += inner
    return np.asarray(near, np.float32)


def logits_of(quality: Floats) -> Floats:
    """Turn expected qualities into logits."""
    sure = np.clip(quality, SURE, 1 - SURE)
    return np.asarray(np.log(sure / (1 - sure)), np.float32)


def sigmoid(logits: Floats) -> Floats:
    """Turn logits into qualities."""
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -30, 30))), np.float32)
