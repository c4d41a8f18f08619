"""Fit quality heads to sparse labels; levels share information. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from classifier.encoder.encoder import Floats
from classifier.heads import Heads, kernel
from classifier.training.solve import solved


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecipe:
    """What is believed before any label is seen; found by cross-validation (docs/adr/0009)."""

    axes: int = 96  #: features are projected on
    noise: float = 3.0  #: variance of one image, beside that of what tells prompts apart
    common: float = 1.0  #: variance of what prompts have in common
    limit: int = 12_000  #: prompts, of more a random part: memory grows with their square


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Axes:
    """The axes along which prompts differ most; on them a prompt is about 1 from the mean."""

    project: Floats  #: [F, D]
    shift: Floats  #: [D]

    def __call__(self, features: Floats) -> Floats:
        return np.asarray(features @ self.project + self.shift, np.float32)


def axes_of(features: Floats, count: int) -> Axes:
    """Find principal axes of features, each of which weighs the same. Shapes: [P, F]."""
    centre, scale = features.mean(axis=0), features.std(axis=0) + 1e-6
    scaled = (features - centre) / scale
    _, found = np.linalg.eigh(scaled.T @ scaled)  # ascending
    project = found[:, ::-1][:, :count] / scale[:, None]
    size = np.sqrt(np.square((features - centre) @ project).sum(axis=1).mean())
    project = (project / size).astype(np.float32)
    return Axes(project=project, shift=-(centre @ project))


def fit(
    features: Floats, quality: Floats, weights: Floats, alike: Floats, recipe: TrainingRecipe
) -> Heads:
    """Fit expected qualities to the images there are.

    A Gaussian process over prompts and levels: the covariance of two labels is how alike their
    prompts are, times how alike their levels are. The level of a label is no accident where a plan
    chose it, so how good a level is in general is learned with the rest, and is not the mean
    of its labels.

    Shapes: features [P, F] of different prompts, quality [P, L], weights [P, L] in images,
            alike [L, L] of levels
    """
    some = _limited(len(features), recipe.limit)
    quality, weights = quality[some], weights[some]
    axes = axes_of(features[some], recipe.axes)
    known = axes(features[some])
    covariance = kernel(known, known) + recipe.common
    has = (weights > 0).astype(np.float32)
    noise = has * recipe.noise / np.maximum(weights, 1e-6)
    overall = float((quality * weights).sum() / weights.sum())

    def apply(said: Floats) -> Floats:
        return np.asarray(has * (covariance @ (said @ alike)) + noise * said, np.float32)

    said = solved(apply, np.asarray(has * (quality - overall), np.float32)) @ alike
    ones = np.ones(len(alike), np.float32)
    return Heads(
        project=axes.project,
        shift=axes.shift,
        known=known,
        weights=said,
        mean=np.asarray(overall + recipe.common * said.sum(axis=0), np.float32),
        slope=ones,
        offset=np.zeros_like(ones),
    )


def _limited(count: int, limit: int) -> NDArray[np.int64]:
    """Choose which prompts to learn from."""
    if count <= limit:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, limit, replace=False))
