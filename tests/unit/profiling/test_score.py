import numpy as np
import torch
from pytest import approx

from classifier.score_curve import Shrinkage, Worth
from profiling.score import joined, judge_by

LINE = Shrinkage(offset=0.0, slope=1.0, variance=0.1)
WORTH = Worth(scores=(10.0, 30.0), qualities=(0.2, 0.8), levels={}, other=LINE)
PICTURES = [np.zeros((8, 8, 3), np.uint8)] * 3


class ByLength:
    """Scores an image by the length of its prompt."""

    def scores(self, prompts, images):
        assert len(prompts) == len(images)
        return torch.tensor([float(len(prompt)) for prompt in prompts])


def test_a_scorers_scores_become_qualities_by_its_curve():
    judged = judge_by(ByLength(), WORTH, ["a" * 5, "a" * 20, "a" * 40])(PICTURES)
    assert judged.learned.tolist() == [5.0, 20.0, 40.0]
    assert judged.quality.tolist() == approx([0.2, 0.5, 0.8])


def test_a_judge_that_knows_no_parts_leaves_their_columns_out():
    judge = judge_by(ByLength(), WORTH, ["a", "ab", "abc"])
    both = joined([judge(PICTURES), judge(PICTURES)])
    assert (both.quality.shape, both.learned.shape) == ((3, 2), (3, 2))
    assert both.strict is both.share is None
