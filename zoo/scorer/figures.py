"""Metrics of a scorer: AUC and agreement with the checker. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy.stats import rankdata, spearmanr


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Right pairs of prompt and picture against wrong ones."""

    #: Area under the ROC curve: the chance that a right pair scores above a wrong one.
    auc: float
    #: Wrong pairs.
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Scores against the checker's share of right parts, on generated pictures."""

    #: Spearman's rank correlation.
    rank_correlation: float
    #: Area under the ROC curve, pictures right in every part against all others; NaN without both.
    strict_auc: float
    #: Mean share of right parts.
    share: float
    #: Pictures.
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All that is reported of a scorer."""

    #: True pictures, own caption against another one's: mixed levels, then within each.
    random: dict[str, Contrast]
    #: Own caption against one that is wrong in one word: mixed levels, then within each.
    hard: dict[str, Contrast]
    #: The same by kind of word, all levels.
    hard_by_kind: dict[str, Contrast]
    #: Generated pictures: mixed levels, then within each.
    generated: dict[str, Agreement]

    def as_fields(self) -> dict[str, object]:
        """Give the fields for JSON."""
        return asdict(self)


def auc(right: Sequence[float], wrong: Sequence[float]) -> float:
    """Give the chance that a right score is above a wrong one; ties count half.

    Source: Mann and Whitney 1947. NaN if either is empty.
    """
    if not len(right) or not len(wrong):
        return float("nan")
    ranks = rankdata(np.concatenate([right, wrong]))
    above = ranks[: len(right)].sum() - len(right) * (len(right) + 1) / 2
    return float(above / (len(right) * len(wrong)))


def contrast(right: Sequence[float], wrong: Sequence[float]) -> Contrast:
    """Set right pairs against wrong ones."""
    return Contrast(auc=auc(right, wrong), count=len(wrong))


def agreement(scores: Sequence[float], shares: Sequence[float]) -> Agreement:
    """Set scores against shares of right parts."""
    pairs = list(zip(scores, shares, strict=True))
    return Agreement(
        rank_correlation=float(spearmanr(scores, shares).statistic),
        strict_auc=auc([s for s, x in pairs if x == 1], [s for s, x in pairs if x < 1]),
        share=float(np.mean(shares)),
        count=len(pairs),
    )
