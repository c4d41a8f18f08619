"""How are heads fitted to labels of which most are missing? By Adam, in seconds. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from worker.affinity.encoder import Floats
from worker.affinity.heads import Heads, sigmoid

Tick = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How long and how fast."""

    hidden: int = 64
    epochs: int = 30
    batch: int = 256
    rate: float = 3e-3  #: falls to nothing along a cosine
    decay: float = 3e-2  #: of weights, a step and rate
    noise: float = 0.3  #: standard deviation of what is added to the features, in theirs
    seed: int = 0


def fit(features: Floats, quality: Floats, counts: Floats, recipe: Recipe) -> Heads:
    """Fit expected qualities: cross-entropy over the images there are.

    Shapes: features [P, F], quality [P, L] in [0, 1], counts [P, L] of images.
    """
    centre, scale = features.mean(axis=0), features.std(axis=0) + 1e-6
    scaled = (features - centre) / scale
    rng = np.random.default_rng(recipe.seed)
    weights = _drawn(rng, features.shape[1], recipe.hidden, quality, counts)
    adam = _Adam(weights, recipe)
    total = recipe.epochs * -(-len(features) // recipe.batch)
    for step in range(total):
        rows = _rows(rng, step, len(features), recipe.batch)
        seen = scaled[rows] + rng.normal(0, recipe.noise, scaled[rows].shape).astype(np.float32)
        gradients = _gradients(weights, seen, quality[rows], counts[rows])
        adam.step(weights, gradients, rate=(1 + np.cos(np.pi * step / total)) / 2)
    inner, inner_bias, outer, outer_bias = weights
    inner = inner / scale[:, None]
    return Heads(
        inner=inner, inner_bias=inner_bias - centre @ inner, outer=outer, outer_bias=outer_bias
    )


def _drawn(
    rng: np.random.Generator, num_features: int, hidden: int, quality: Floats, counts: Floats
) -> list[Floats]:
    """Start from small weights, and from the mean quality of each level."""
    mean = (quality * counts).sum(axis=0) / np.maximum(counts.sum(axis=0), 1)
    mean = np.clip(mean, 0.01, 0.99)
    shapes = ((num_features, hidden), (hidden, quality.shape[1]))
    inner, outer = (rng.normal(0, shape[0] ** -0.5, shape).astype(np.float32) for shape in shapes)
    bias = np.log(mean / (1 - mean)).astype(np.float32)
    return [inner, np.zeros(hidden, np.float32), outer, bias]


def _rows(rng: np.random.Generator, step: int, count: int, batch: int) -> NDArray[np.int64]:
    return rng.integers(0, count, min(batch, count))


def _gradients(
    weights: list[Floats], seen: Floats, quality: Floats, counts: Floats
) -> list[Floats]:
    inner, inner_bias, outer, outer_bias = weights
    hidden = np.maximum(seen @ inner + inner_bias, 0)
    wrong = (sigmoid(hidden @ outer + outer_bias) - quality) * counts
    wrong = wrong / max(1.0, float(counts.sum()))
    back = (wrong @ outer.T) * (hidden > 0)
    return [seen.T @ back, back.sum(axis=0), hidden.T @ wrong, wrong.sum(axis=0)]


class _Adam:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019); biases do not decay."""

    def __init__(self, weights: list[Floats], recipe: Recipe) -> None:
        self._recipe = recipe
        self._first = [np.zeros_like(each) for each in weights]
        self._second = [np.zeros_like(each) for each in weights]
        self._steps = 0

    def step(self, weights: list[Floats], gradients: list[Floats], *, rate: float) -> None:
        self._steps += 1
        rate *= self._recipe.rate
        for i, gradient in enumerate(gradients):
            self._first[i] += 0.1 * (gradient - self._first[i])
            self._second[i] += 0.001 * (np.square(gradient) - self._second[i])
            first = self._first[i] / (1 - 0.9**self._steps)
            second = self._second[i] / (1 - 0.999**self._steps)
            if weights[i].ndim == 2:
                weights[i] *= 1 - rate * self._recipe.decay
            weights[i] -= rate * first / (np.sqrt(second) + 1e-8)
