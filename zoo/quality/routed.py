"""Value of knowing a prompt's class: quality of routings at equal loads. Pure.

Loads are given, so nobody gains by being slower: all that differs is which prompt goes where.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, linprog

from classifier.labels import Labels
from classifier.relative import Qualities, optimal, relative

Shares = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """Mean relative quality at equal loads, by who says which prompt goes where."""

    random: float  #: nobody: every prompt meets each level by its load
    by_class: float  #: the plan's row of the class that the classifier puts a prompt in
    by_prompt: float  #: what the classifier expects of each prompt by itself
    lucky: float  #: whoever has seen the images that are judged: their luck counts as quality
    foreseen: float  #: whoever has seen all images of a prompt but the one that is judged

    @property
    def perfect(self) -> float:
        """Estimate what it is worth to know the expected quality, which few images do not show.

        If what is seen is the truth and luck, of variances t and n, choosing by it gains in
        proportion to (t + n)^1/2 on what is seen and to t (t + n)^-1/2 on what is not. The gain
        of choosing by the truth, t^1/2, is their geometric mean. Quality has an upper end, so
        this is too little: nine tenths of the gain with four images in a simulation, two thirds
        with two.
        """
        gains = (self.lucky - self.random) * (self.foreseen - self.random)
        return self.random + math.sqrt(max(gains, 0.0))


def routed(
    labels: Labels,
    expected: Qualities,
    classes: NDArray[np.int64],
    table: Qualities,
    loads: Shares,
) -> Routed:
    """Route prompts at these loads.

    Shapes: expected [P, L] qualities; classes [P], rows of the table of relative qualities [C, L];
            loads [L]
    """
    truth = relative(labels.mean)
    affinity = np.bincount(classes, minlength=len(table)) / len(classes)
    rows = rows_of(affinity, loads, table)
    random = float(truth.mean(axis=0) @ loads)
    lucky, foreseen = _hindsight(labels, loads)
    return Routed(
        random=random,
        by_class=float((rows[classes] * truth).sum(axis=1).mean()),
        by_prompt=_mean(truth, assigned(relative(expected), loads)),
        lucky=random + lucky,
        foreseen=random + foreseen,
    )


def optimal_loads(labels: Labels) -> Shares:
    """Load each level with as many prompts as it is optimal for (Argus Fig. 9). Shapes: [L]."""
    chosen = optimal(labels.mean)
    return np.bincount(chosen, minlength=len(labels.levels)) / len(chosen)


def planned_loads(labels: Labels, tau: Sequence[float], busy: float) -> Shares:
    """Load levels as is best for prompts that nobody tells apart (Argus Eq. 1). Shapes: [L].

    `busy` is where the mean time of an image lies between the fastest level and the slowest.
    """
    mean, seconds = relative(labels.mean).mean(axis=0), np.asarray(tau)
    limit = seconds.min() + busy * (seconds.max() - seconds.min())
    found = linprog(-mean, A_ub=[seconds], b_ub=[limit], A_eq=[np.ones_like(mean)], b_eq=[1.0])
    return np.asarray(found.x)


def rows_of(affinity: Shares, loads: Shares, quality: Qualities) -> Shares:
    """Share classes among levels so that the mean quality is highest: a transport problem.

    Shapes: affinity [C], loads [L], quality [C, L] -> rows [C, L], each adds up to 1.
    """
    count, width = quality.shape
    by_class = np.kron(np.eye(count), np.ones(width))
    by_level = np.kron(np.ones(count), np.eye(width))
    found = linprog(
        -quality.ravel(), A_eq=np.vstack([by_class, by_level]), b_eq=[*affinity, *loads]
    )
    flows = found.x.reshape(count, width)
    total = flows.sum(axis=1, keepdims=True)
    return np.where(total > 0, flows / np.maximum(total, 1e-12), loads)


def assigned(quality: Qualities, loads: Shares) -> NDArray[np.int64]:
    """Give each prompt a level so that the mean quality is highest. Shapes: [P, L] -> [P]."""
    places = np.repeat(np.arange(len(loads)), _whole(loads, len(quality)))
    prompts, columns = linear_sum_assignment(-quality[:, places])
    level = np.empty(len(quality), np.int64)
    level[prompts] = places[columns]
    return level


def _whole(loads: Shares, count: int) -> NDArray[np.int64]:
    """Count prompts of each level, by largest remainder."""
    wanted = loads * count
    whole = np.floor(wanted + 1e-9).astype(np.int64)
    short = np.argsort(whole - wanted, kind="stable")[: count - int(whole.sum())]
    whole[short] += 1
    return whole


def _hindsight(labels: Labels, loads: Shares) -> tuple[float, float]:
    """Choose by all images but one: what is gained over random on these, and on that one."""
    quality = labels.quality[:, :, ~np.isnan(labels.quality).any(axis=(0, 1))]
    best = np.maximum(labels.mean.max(axis=1, keepdims=True), 1e-6)
    repeats = quality.shape[2]
    if repeats < 2:
        return 0.0, 0.0
    gains = []
    for out in range(repeats):
        seen = np.delete(quality, out, axis=2).mean(axis=2) / best
        level = assigned(seen, loads)
        unseen = quality[:, :, out] / best
        gains.append([_mean(each, level) - each.mean(axis=0) @ loads for each in (seen, unseen)])
    lucky, foreseen = np.mean(gains, axis=0)
    return float(lucky), float(foreseen)


def _mean(quality: Qualities, level: NDArray[np.int64]) -> float:
    return float(quality[np.arange(len(level)), level].mean())
