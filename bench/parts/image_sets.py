"""Compare sets of images of the same prompts: score, Fréchet distance, structural similarity."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from skimage.metrics import structural_similarity

from worker.diffusion.runner import Pixels
from worker.diffusion.scorer import Scorer


def frechet(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Tell how far two clouds of features are apart, as FID does (Heusel et al. 2017, Eq. 6).

    The features are those of a scorer, not of Inception: no other paper's FID compares with it.

    Shapes: [N, E], [M, E].
    """
    off = one.mean(axis=0) - other.mean(axis=0)
    first, second = np.cov(one, rowvar=False), np.cov(other, rowvar=False)
    roots = np.sqrt(np.clip(np.linalg.eigvals(first @ second).real, 0.0, None))
    return float(off @ off + np.trace(first) + np.trace(second) - 2 * roots.sum())


class Judge:
    """Scores and features by one scorer."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer

    def score(self, prompts: Sequence[str], images: Sequence[Pixels]) -> float:
        """Say how well images show their prompts, as CLIP scores do: a hundred times the cosine."""
        scores = self._scorer.scores(prompts, images)
        return float(100 * scores.mean() / self._scorer.scale)

    def frechet(self, one: Sequence[Pixels], other: Sequence[Pixels]) -> float:
        """Tell how far two sets are apart, a hundredfold."""
        sets = (self._scorer.embed_images(each).double().numpy() for each in (one, other))
        return 100 * frechet(*sets)


def similarity(one: Sequence[Pixels], other: Sequence[Pixels]) -> float:
    """Mean SSIM of pairs of images."""
    return float(
        np.mean(
            [structural_similarity(a, b, channel_axis=2) for a, b in zip(one, other, strict=True)]
        )
    )
