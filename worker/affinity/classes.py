"""What are the classes of a classifier worth at each level? Told from labels it never saw. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from worker.affinity.labels import Labels
from worker.affinity.relative import Qualities, optimal, relative

#: What was predicted for a class counts as much as so many images of it.
PRIOR = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """The prompts that a classifier puts together: those of one optimal level, which names them."""

    shares: Mapping[str, float]  #: class -> share of the prompts; adds up to 1
    #: class -> level -> mean quality relative to each prompt's best level, in [0, 1]
    quality: Mapping[str, Mapping[str, float]]
    overall: Mapping[str, float]  #: the same of all prompts


def classes_of(labels: Labels, predicted: Qualities) -> Classes:
    """Average what was observed over each class, with a little of what was predicted.

    Shapes: predicted [P, L], by a classifier that did not learn from these prompts.
    """
    chosen = optimal(predicted)
    counts, best = labels.counts, predicted.max(axis=1, keepdims=True)
    observed = labels.mean / np.maximum(best, 1e-6)
    expected = relative(predicted)
    members = {labels.levels[index]: chosen == index for index in np.unique(chosen)}

    def row(some: NDArray[np.bool_]) -> dict[str, float]:
        found = _blend(observed[some], counts[some], expected[some])
        return dict(zip(labels.levels, found.tolist(), strict=True))

    return Classes(
        shares={name: float(some.mean()) for name, some in members.items()},
        quality={name: row(some) for name, some in members.items()},
        overall=row(np.ones(len(chosen), bool)),
    )


def _blend(observed: Qualities, counts: Qualities, expected: Qualities) -> NDArray[np.float64]:
    """Shapes: [P, L] each -> [L]."""
    images = counts.sum(axis=0)
    total = (observed * counts).sum(axis=0) + PRIOR * expected.mean(axis=0)
    return np.asarray(np.clip(total / (images + PRIOR), 0.0, 1.0), np.float64)


def names_of(levels: Sequence[str], quality: Qualities) -> list[str]:
    """Name the class of each prompt. Shapes: [P, L]."""
    return [levels[index] for index in optimal(quality)]
