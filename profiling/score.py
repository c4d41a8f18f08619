"""Judge pictures with the exact checker and the learned scorer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from worker.diffusion.scorer import Scorer
from zoo.checker import check
from zoo.scenes import Picture, Scene

Column = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LevelScores:
    """What is thought of the pictures of one level; each [P], or [P, R] with repeats."""

    #: 1 where every part is right, else 0.
    strict: Column
    #: Share of right parts.
    share: Column
    #: Scores of the learned scorer, where there is one.
    learned: Column | None = None

    @property
    def quality(self) -> Column:
        """Give half for a picture that is right, half for the share of its parts that are.

        A picture with one wrong part is a wrong picture: whoever asked for it asks again, so it
        is worth less than half of a right one. Among wrong pictures the nearer one is better, so
        a prompt that no level gets right still has a best one.
        """
        return (self.strict + self.share) / 2


def judge(
    pictures: Sequence[Picture], scenes: Sequence[Scene], scorer: Scorer | None
) -> LevelScores:
    """Read every picture with the exact checker, and with the learned scorer if there is one."""
    reports = [check(picture, scene) for picture, scene in zip(pictures, scenes, strict=True)]
    learned = None
    if scorer is not None:
        learned = scorer.scores([scene.caption for scene in scenes], pictures).double().numpy()
    return LevelScores(
        strict=np.array([float(report.is_right) for report in reports]),
        share=np.array([report.share for report in reports]),
        learned=learned,
    )


def apart(quality: Column) -> tuple[Column, Column]:
    """Tell from qualities of checked pictures what they are made of: strict, share."""
    strict = (quality == 1).astype(float)
    return strict, np.where(strict, 1.0, 2 * quality)


def joined(repeats: Sequence[LevelScores]) -> LevelScores:
    """Put the repeats of one level side by side. Shapes: [P] each -> [P, R]."""
    learned = [each.learned for each in repeats if each.learned is not None]
    return LevelScores(
        strict=np.stack([each.strict for each in repeats], axis=1),
        share=np.stack([each.share for each in repeats], axis=1),
        learned=np.stack(learned, axis=1) if learned else None,
    )
