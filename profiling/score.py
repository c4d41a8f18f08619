"""Judge pictures: what a judge says of one level, and a judge that is a learned scorer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from classifier.score_curve import Worth

Column = NDArray[np.float64]
Picture = NDArray[np.uint8]  #: [H, W, 3]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LevelScores:
    """What is thought of the pictures of one level; each [P], or [P, R] with repeats."""

    #: What plans are made of, in [0, 1].
    quality: Column
    #: Of a judge that looks at parts of pictures: 1 where every part is right, else 0.
    strict: Column | None = None
    #: Of such a judge: share of right parts.
    share: Column | None = None
    #: Scores of the learned scorer, where there is one.
    learned: Column | None = None


#: Judges one picture of each measured prompt, in their order.
Judge = Callable[[Sequence[Picture]], LevelScores]


class ImageScorer(Protocol):
    """A learned scorer, such as `worker.diffusion.scorer.Scorer`."""

    def scores(self, prompts: Sequence[str], images: Sequence[Picture]) -> Tensor:
        """Score each image for its prompt. Shapes: N prompts, N images -> [N]."""
        ...


def judge_by(scorer: ImageScorer, worth: Worth, prompts: Sequence[str]) -> Judge:
    """Judge by a scorer: the quality that images of its scores have on average."""

    def judge(pictures: Sequence[Picture]) -> LevelScores:
        learned = scorer.scores(prompts, pictures).double().numpy()
        quality = np.array([worth.quality(score) for score in learned.tolist()])
        return LevelScores(quality=quality, learned=learned)

    return judge


def joined(repeats: Sequence[LevelScores]) -> LevelScores:
    """Put the repeats of one level side by side. Shapes: [P] each -> [P, R]."""
    return LevelScores(
        quality=np.stack([each.quality for each in repeats], axis=1),
        strict=_stacked([each.strict for each in repeats]),
        share=_stacked([each.share for each in repeats]),
        learned=_stacked([each.learned for each in repeats]),
    )


def _stacked(columns: Sequence[Column | None]) -> Column | None:
    known = [column for column in columns if column is not None]
    return np.stack(known, axis=1) if known else None
