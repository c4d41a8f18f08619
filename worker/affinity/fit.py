"""How are heads fitted to labels of which most are missing? Levels learn from each other. Pure."""

from dataclasses import dataclass

import numpy as np

from worker.affinity.encoder import Floats
from worker.affinity.heads import Heads, kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is believed before any label is seen; found by cross-validation (docs/adr/0009)."""

    axes: int = 96  #: features are projected on
    noise: float = 3.0  #: variance of one image, beside that of what prompts have in common
    shared: float = 0.5  #: how much of what is learned of a prompt at one level goes for all
    limit: int = 10_000  #: labels, of more a random part: time grows with their cube


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


def fit(features: Floats, quality: Floats, counts: Floats, recipe: Recipe) -> Heads:
    """Fit expected qualities to the images there are.

    A Gaussian process over prompts and levels: the covariance of two labels is how alike their
    prompts are, times 1 for one level and `shared` for two. Solved exactly.

    Shapes: features [P, F], quality [P, L] in [0, 1], counts [P, L] of images.
    """
    axes = axes_of(features, recipe.axes)
    known = axes(features)
    rows, levels = _labelled(counts, recipe)
    mean = (quality * counts).sum(axis=0) / np.maximum(counts.sum(axis=0), 1)
    alike = kernel(known, known)[np.ix_(rows, rows)]
    between = recipe.shared + (1 - recipe.shared) * np.eye(len(mean), dtype=np.float32)
    alike *= between[np.ix_(levels, levels)]
    alike[np.diag_indices_from(alike)] += recipe.noise / counts[rows, levels]
    said = np.linalg.solve(alike, quality[rows, levels] - mean[levels])
    weights = np.zeros((len(known), len(mean)), np.float32)
    np.add.at(weights, rows, said[:, None] * between[levels])
    ones = np.ones(len(mean), np.float32)
    return Heads(
        project=axes.project,
        shift=axes.shift,
        known=known,
        weights=weights,
        mean=np.asarray(mean, np.float32),
        slope=ones,
        offset=np.zeros_like(ones),
    )


def _labelled(counts: Floats, recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    """List the labels to learn from, by prompt and level."""
    rows, levels = np.nonzero(counts)
    if len(rows) > recipe.limit:
        some = np.random.default_rng(0).choice(len(rows), recipe.limit, replace=False)
        rows, levels = rows[some], levels[some]
    return rows, levels
