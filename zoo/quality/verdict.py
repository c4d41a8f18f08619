"""Judge pictures of scenes with the exact checker, and with the learned scorer if there is one."""

from collections.abc import Sequence

import numpy as np

from profiling.score import Column, LevelScores
from worker.diffusion.scorer import Scorer
from zoo.checker import check
from zoo.scenes import Picture, Scene


def judge(
    pictures: Sequence[Picture], scenes: Sequence[Scene], scorer: Scorer | None
) -> LevelScores:
    """Give half for a picture that is right, half for the share of its parts that are.

    A picture with one wrong part is a wrong picture: whoever asked for it asks again, so it is
    worth less than half of a right one. Among wrong pictures the nearer one is better, so a prompt
    that no level gets right still has a best one.
    """
    reports = [check(picture, scene) for picture, scene in zip(pictures, scenes, strict=True)]
    strict = np.array([float(report.is_right) for report in reports])
    share = np.array([report.share for report in reports])
    learned = None
    if scorer is not None:
        learned = scorer.scores([scene.caption for scene in scenes], pictures).double().numpy()
    return LevelScores(quality=(strict + share) / 2, strict=strict, share=share, learned=learned)


def apart(quality: Column) -> tuple[Column, Column]:
    """Tell from qualities of checked pictures what they are made of: strict, share."""
    strict = (quality == 1).astype(float)
    return strict, np.where(strict, 1.0, 2 * quality)
