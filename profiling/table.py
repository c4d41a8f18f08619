"""Tabulate the optimal levels of prompts, and what knowing them is worth. Pure."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from classifier.relative import Qualities, optimal, relative
from core.levels.level import Level
from scheduler.profile.profile_file import CACHED, EVERY, SMALLER, Assignment, LevelFamily
from scheduler.routing.classify import ANY

SHUFFLES = 2000


def family(levels: Sequence[str], quality: Qualities, tau: Sequence[float]) -> LevelFamily:
    """Tabulate shares and relative qualities of some levels.

    Shapes: quality [P, L, R] of prompts, levels and repeats.
    Units:  tau in seconds of an image, by level.
    """
    order = sorted(range(len(levels)), key=lambda i: (tau[i], levels[i]))
    names = tuple(levels[i] for i in order)
    quality, seconds = quality[:, order], np.array([tau[i] for i in order])
    mean = quality.mean(axis=2)
    chosen = optimal(mean)
    shares = np.bincount(chosen, minlength=len(names)) / len(chosen)
    return LevelFamily(
        levels=names,
        shares=dict(zip(names, shares.tolist(), strict=True)),
        quality=_table(names, relative(mean), chosen),
        assignment=_compare(quality, chosen, seconds),
    )


def families(
    quality: Mapping[Level, Qualities], tau: Mapping[str, float]
) -> dict[str, LevelFamily]:
    """Tabulate all levels, the exact ones, and every level of the best model.

    Shapes: quality [P, R] by level.
    """
    whole = [level for level in quality if level.is_exact]
    best = max(whole, key=lambda level: float(quality[level].mean()))
    members = {
        SMALLER: whole,
        CACHED: [level for level in quality if level.model == best.model],
        EVERY: list(quality),
    }
    return {
        name: family(
            [level.name for level in some],
            np.stack([quality[level] for level in some], axis=1),
            [tau[level.name] for level in some],
        )
        for name, some in members.items()
    }


def _table(
    names: Sequence[str], relative: Qualities, chosen: NDArray[np.int64]
) -> dict[str, dict[str, float]]:
    rows = {ANY: relative.mean(axis=0)}
    for index, name in enumerate(names):
        if (of_class := chosen == index).any():
            rows[name] = relative[of_class].mean(axis=0)
    return {name: dict(zip(names, row.tolist(), strict=True)) for name, row in rows.items()}


def _compare(
    quality: Qualities, chosen: NDArray[np.int64], seconds: NDArray[np.float64]
) -> Assignment:
    """Compare every prompt at its optimal level with shuffles of the same levels (Argus Fig. 9)."""
    gained, rng = relative(quality.mean(axis=2)), np.random.default_rng(0)
    rows = np.arange(len(chosen))
    shuffles = rng.permuted(np.tile(chosen, (SHUFFLES, 1)), axis=1)
    low, high = np.percentile(gained[rows, shuffles].mean(axis=1), [2.5, 97.5])
    return Assignment(
        optimal=float(gained[rows, chosen].mean()),
        random=_shuffled_mean(gained, chosen),
        low=float(low),
        high=float(high),
        seconds=float(seconds[chosen].mean()),
        gain_on_other_noise=_gain_on_other_noise(quality),
    )


def _shuffled_mean(values: Qualities, chosen: NDArray[np.int64]) -> float:
    """Average over all shuffles, exactly: each prompt meets each level by its share."""
    shares = np.bincount(chosen, minlength=values.shape[1]) / len(chosen)
    return float(values.mean(axis=0) @ shares)


def _gain_on_other_noise(quality: Qualities) -> float | None:
    """Choose levels on all repeats but one and judge them on that one.

    A level that was lucky in the images it was chosen by gains nothing here.
    """
    repeats = quality.shape[2]
    if repeats < 2:
        return None
    kept, random = 0.0, 0.0
    for out in range(repeats):
        chosen = optimal(np.delete(quality, out, axis=2).mean(axis=2))
        judged = quality[:, :, out]
        kept += float(judged[np.arange(len(chosen)), chosen].mean())
        random += _shuffled_mean(judged, chosen)
    return kept / random - 1 if random > 0 else None
