"""Retrain a classifier and pick the best of it, the current and earlier versions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from classifier.encoder.encoder import SentenceEncoder
from classifier.labels import Labels
from classifier.trained import TrainedClassifier
from classifier.training.learned import (
    MIN_JUDGES,
    Errors,
    Lessons,
    errors_of,
    is_better,
    joined,
    lessons_of,
)
from classifier.training.train import train
from core.boards.score import Score

NEW = ""  #: names the classifier that has just been trained


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shipped:
    """The labels beside the classifier that ships; None where there are none."""

    taught: Labels | None = None
    tested: Labels | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrainResult:
    """What became of one retraining."""

    chosen: str | None  #: `NEW`, the id of an earlier version, or None: all stays as it is
    reason: str  #: for a person
    images: int = 0  #: scored ones that it learned from
    before: Errors | None = None  #: of the classifier in force
    after: Errors | None = None  #: of the best of the others
    base: str = ""  #: digest of the classifier that ships where it was made


def retrain(
    current: TrainedClassifier,
    earlier: Mapping[str, TrainedClassifier],
    scores: Sequence[Score],
    shipped: Shipped,
    *,
    encoder: SentenceEncoder,
    folder: Path,
) -> RetrainResult:
    """Train a classifier in a folder, and judge it and earlier ones on held-out prompts.

    From the beginning, on all labels: the heads take seconds, and nothing is forgotten.

    Raises:
        ConfigurationError: there are too few labels to train on.
    """
    lessons = lessons_of(scores, current.levels)
    if lessons.judges.counts.sum() < MIN_JUDGES:
        few = f"{int(lessons.judges.counts.sum())} labels of held-out prompts"
        return RetrainResult(chosen=None, reason=f"{few}: too few to judge by")
    taught = replace(lessons.taught, origin=current.card.origin)  # of the same weights
    train(joined(shipped.taught, taught) if shipped.taught else taught, encoder, folder)
    others = {**earlier, NEW: TrainedClassifier(folder, encoder)}
    return _elect(current, others, lessons, shipped.tested)


def _elect(
    current: TrainedClassifier,
    others: Mapping[str, TrainedClassifier],
    lessons: Lessons,
    tested: Labels | None,
) -> RetrainResult:
    """Choose the best of those that know every level which judges: fewer are easier to know."""
    columns = zip(lessons.judges.levels, lessons.judges.counts.T, strict=True)
    judging = {level for level, counts in columns if counts.any()}
    before = errors_of(current, lessons.judges, tested)
    errors = {
        name: errors_of(each, lessons.judges, tested)
        for name, each in others.items()
        if judging <= set(each.levels)
    }
    best = min(errors, key=lambda name: errors[name].recent, default=None)
    chosen = best if best is not None and is_better(errors[best], before) else None
    return RetrainResult(
        chosen=chosen,
        reason=_reason(chosen) if errors else "none knows all levels that images were made at",
        images=lessons.images,
        before=before,
        after=None if best is None else errors[best],
    )


def _reason(chosen: str | None) -> str:
    if chosen is None:
        return "none is better on held-out prompts"
    return "trained anew" if chosen == NEW else "an earlier one is better again"
