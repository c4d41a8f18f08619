"""Evaluate a classifier on images of held-out prompts. Pure but for the encoder."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from classifier.labels import Labels
from classifier.relative import Qualities
from classifier.trained import TrainedClassifier
from classifier.training.calibrate import calibration_error


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Figures over all judged images."""

    images: int  #: there were
    error: float  #: mean squared error of expected qualities
    naive_error: float  #: of expecting the mean of the level, whatever the prompt
    calibration: float  #: mean distance of what was expected from what came, of alike predictions

    @property
    def skill(self) -> float:
        """Which part of the naive error it takes away; what is left is mostly luck of the noise."""
        return 1 - self.error / self.naive_error if self.naive_error > 0 else 0.0

    def figures(self) -> Mapping[str, float]:
        """Name them, for a file."""
        named = {"error": self.error, "naive_error": self.naive_error}
        return named | {"skill": self.skill, "calibration_error": self.calibration}


def evaluate(classifier: TrainedClassifier, labels: Labels) -> Evaluation:
    """Compare what a classifier expects with what came. Levels it does not know do not count."""
    known = [i for i, level in enumerate(labels.levels) if level in classifier.levels]
    asked = [classifier.levels.index(labels.levels[i]) for i in known]
    return evaluation_of(classifier.expect(labels.prompts)[:, asked], labels.at(known))


def evaluation_of(expected: Qualities, labels: Labels) -> Evaluation:
    """Compare expected qualities with what came. Shapes: [P, L]."""
    weights, mean = labels.weights, labels.mean
    total = max(1e-6, float(weights.sum()))
    naive = (mean * weights).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-6)
    return Evaluation(
        images=int(labels.counts.sum()),
        error=_squared(expected, labels) / total,
        naive_error=_squared(np.broadcast_to(naive, mean.shape), labels) / total,
        calibration=calibration_error(expected, mean, weights),
    )


def _squared(expected: Qualities, labels: Labels) -> float:
    return float(np.nansum(labels.weight * np.square(labels.quality - expected[:, :, None])))
