"""Cluster prompts into classes, with the mean quality at each level. Pure.

A class is named by its affinity: the fastest level that keeps its quality (Argus §3.2). There are
more classes than that: prompts of one affinity may lose little or much at faster levels, and more
or less by skipped steps. So prompts are put together whose levels are expected to do alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from classifier.labels import Labels
from classifier.relative import Qualities, optimal, relative

COUNT = 32  #: of classes; more close no more of the gap (docs/adr/0009)
#: Labelled prompts of a class, on average, or there are fewer classes.
LEAST = 20
#: What was predicted for a class counts as much as so many images of it.
PRIOR = 20.0

_STARTS, _ROUNDS = 8, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """The prompts that a classifier puts together."""

    shares: Mapping[str, float]  #: class -> share of the prompts; adds up to 1
    #: class -> level -> mean quality relative to each prompt's best level, in [0, 1]
    quality: Mapping[str, Mapping[str, float]]
    overall: Mapping[str, float]  #: the same of all prompts
    #: class -> level -> relative quality that its prompts are expected to have, in the middle
    centres: Mapping[str, Mapping[str, float]]


def classes_of(labels: Labels, predicted: Qualities) -> Classes:
    """Put prompts together, and average over each class what was observed of it.

    Shapes: predicted [P, L], by a classifier that did not learn from these prompts.
    """
    expected = relative(predicted)
    centres = _centres(expected)
    member = nearest(expected, centres)
    observed = labels.mean / np.maximum(predicted.max(axis=1, keepdims=True), 1e-6)

    def row(some: NDArray[np.bool_]) -> Qualities:
        return _blend(observed[some], labels.weights[some], expected[some])

    rows = np.stack([row(member == index) for index in range(len(centres))])
    names = _names(labels.levels, rows)
    shares = np.bincount(member, minlength=len(centres)) / len(member)
    return Classes(
        shares=dict(zip(names, shares.tolist(), strict=True)),
        quality=_table(names, labels.levels, rows),
        overall=_row(labels.levels, row(np.ones(len(member), bool))),
        centres=_table(names, labels.levels, centres),
    )


def nearest(expected: Qualities, centres: Qualities) -> NDArray[np.int64]:
    """Find the class of each prompt. Shapes: relative [P, L], [C, L] -> [P]."""
    apart = np.square(expected[:, None] - centres).sum(axis=2)
    return np.asarray(apart.argmin(axis=1))


def _centres(expected: Qualities) -> Qualities:
    """Find groups by k-means, the best of several starts. Shapes: [P, L] -> [C, L]."""
    rng = np.random.default_rng(0)
    several = [_settled(expected, rng) for _ in range(_STARTS)]
    return min(several, key=lambda centres: _spread(expected, centres))


def _settled(expected: Qualities, rng: np.random.Generator) -> Qualities:
    distinct = np.unique(expected, axis=0)
    count = max(1, min(COUNT, len(expected) // LEAST, len(distinct)))
    centres = distinct[rng.choice(len(distinct), count, replace=False)]
    for _ in range(_ROUNDS):
        member = nearest(expected, centres)
        filled = [i for i in range(len(centres)) if (member == i).any()]
        centres = np.stack([expected[member == i].mean(axis=0) for i in filled])
    return centres


def _spread(expected: Qualities, centres: Qualities) -> float:
    return float(np.square(expected - centres[nearest(expected, centres)]).sum())


def _names(levels: Sequence[str], rows: Qualities) -> list[str]:
    """Name classes by their affinity, and number those of one: the first loses the least."""
    affinity = optimal(rows)
    order = np.argsort(-rows.mean(axis=1), kind="stable")
    names, seen = [""] * len(rows), [0] * len(levels)
    for index in order:
        seen[affinity[index]] += 1
        names[index] = f"{levels[affinity[index]]}/{seen[affinity[index]]}"
    return names


def _blend(observed: Qualities, weights: Qualities, expected: Qualities) -> Qualities:
    """Average what was observed, with a little of what was expected. Shapes: [P, L] each -> [L]."""
    total = (observed * weights).sum(axis=0) + PRIOR * expected.mean(axis=0)
    return np.asarray(np.clip(total / (weights.sum(axis=0) + PRIOR), 0.0, 1.0))


def _table(
    names: Sequence[str], levels: Sequence[str], rows: Qualities
) -> dict[str, dict[str, float]]:
    return {name: _row(levels, row) for name, row in zip(names, rows, strict=True)}


def _row(levels: Sequence[str], row: Qualities) -> dict[str, float]:
    return {level: round(float(each), 4) for level, each in zip(levels, row, strict=True)}
