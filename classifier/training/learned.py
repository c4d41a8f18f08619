"""Retraining labels and held-out errors from scored production images. Pure.

Each prompt is labelled only at the level that the plan chose for it, and by an estimate: what the
scorer takes an image for (docs/adr/0013).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from classifier.labels import Labels, Qualities, labels_of
from classifier.trained import TrainedClassifier
from classifier.training.evaluate import evaluate
from core.boards.score import Score

HELD_OUT = 4  #: one prompt of so many is never learned from
RECENT = 1000  #: scores that held-out prompts are taken from: the mix that comes now
MIN_JUDGES = 25  #: labels of held-out prompts, below which nothing is decided
#: Variance of quality among images that one level made of one prompt, and the share of a scorer's
#: variance that is the same for all of them: what it cannot read, it cannot in any of them. Both
#: were measured on the images of the profile (docs/adr/0013).
LUCK, COMMON = 0.044, 0.5
GAIN = 0.02  #: relative fall of the error that makes another classifier worth a change
FORGETS = 0.05  #: relative rise of the error on the labels that ship, which is put up with


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lessons:
    """Scored images, apart: what is learned from, and what judges. One label a prompt and level."""

    images: int  #: that are learned from
    taught: Labels
    judges: Labels  #: of held-out prompts, lately


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Mean squared errors of one classifier on prompts that none has learned from."""

    recent: float  #: on prompts scored lately
    shipped: float  #: on the test labels that ship with the models; 0 if there are none


def is_held_out(prompt: str) -> bool:
    """Tell whether a prompt is kept for judging; the same for every version.

    What is hashed is not the prompt alone: sets of prompts may have been split by that.
    """
    return hashlib.sha256(f"held out: {prompt}".encode()).digest()[0] % HELD_OUT == 0


def lessons_of(scores: Sequence[Score], levels: Sequence[str]) -> Lessons:
    """Take scores apart, oldest first; those at levels that the classifier lacks are left out."""
    known = [score for score in scores if score.level in set(levels)]
    teaching = [score for score in known if not is_held_out(score.prompt)]
    judging = [score for score in known[-RECENT:] if is_held_out(score.prompt)]
    return Lessons(
        images=len(teaching), taught=_labels(teaching, levels), judges=_labels(judging, levels)
    )


def joined(shipped: Labels, scored: Labels) -> Labels:
    """Put both tables under each other, with the levels of the first."""
    parts = (shipped, _as(shipped.levels, scored))
    repeats = max(part.quality.shape[2] for part in parts)
    return replace(
        shipped,
        prompts=shipped.prompts + scored.prompts,
        quality=np.concatenate([_padded(part.quality, repeats, np.nan) for part in parts]),
        weight=np.concatenate([_padded(part.weight, repeats, 0.0) for part in parts]),
    )


def errors_of(classifier: TrainedClassifier, judges: Labels, shipped: Labels | None) -> Errors:
    """Judge a classifier by both kinds of held-out prompts."""
    return Errors(
        recent=evaluate(classifier, judges).error,
        shipped=evaluate(classifier, shipped).error if shipped is not None else 0.0,
    )


def is_better(new: Errors, current: Errors) -> bool:
    """Tell whether a classifier knows the prompts of now better, and still knows the others."""
    knows_more = new.recent < (1 - GAIN) * current.recent
    return knows_more and new.shipped <= (1 + FORGETS) * current.shipped


def weight_of(images: int, variance: float) -> float:
    """Say how much the mean of some scored images tells, in checked images.

    `variance`: of what a single estimate is off by
    """
    return LUCK / (COMMON * variance + (LUCK + (1 - COMMON) * variance) / images)


def _labels(scores: Sequence[Score], levels: Sequence[str]) -> Labels:
    rows: dict[str, dict[str, list[Score]]] = {}
    for score in scores:
        rows.setdefault(score.prompt, {}).setdefault(score.level, []).append(score)
    means = [
        (prompt, {level: [fmean(s.quality for s in some)] for level, some in row.items()})
        for prompt, row in rows.items()
    ]
    labels = labels_of(levels, means)
    for at, row in enumerate(rows.values()):
        for level, some in row.items():
            weight = weight_of(len(some), fmean(score.variance for score in some))
            labels.weight[at, levels.index(level)] = weight
    return labels


def _as(levels: Sequence[str], labels: Labels) -> Labels:
    """Give a table other levels; it has no images of those that it did not have."""
    shape = (len(labels.prompts), len(levels), labels.quality.shape[2])
    quality, weight = np.full(shape, np.nan, np.float32), np.zeros(shape, np.float32)
    for column, level in enumerate(levels):
        if level in labels.levels:
            quality[:, column] = labels.quality[:, labels.levels.index(level)]
            weight[:, column] = labels.weight[:, labels.levels.index(level)]
    return replace(labels, levels=tuple(levels), quality=quality, weight=weight)


def _padded(some: Qualities, repeats: int, missing: float) -> Qualities:
    more = repeats - some.shape[2]
    return np.pad(some, ((0, 0), (0, 0), (0, more)), constant_values=missing)
