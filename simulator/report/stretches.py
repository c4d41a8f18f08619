"""Merge stretches of an outcome's series until they are few enough for the eye. Pure."""

import numpy as np
from numpy.typing import NDArray

from simulator.outcome import Floats, Series

Counts = NDArray[np.int64]

MOST = 96  #: stretches of a figure


def merged(series: Series, *, most: int = MOST) -> Series:
    """Join neighbouring stretches: counts are added, means weighted by what they are means of."""
    factor = -(-len(series.demand) // most) or 1
    if factor == 1:
        return series
    return Series(
        stretch_s=series.stretch_s * factor,
        demand=_sums(series.demand, factor).astype(np.int64),
        done=_sums(series.done, factor).astype(np.int64),
        late=_sums(series.late, factor).astype(np.int64),
        quality=_means(series.quality, series.done, factor),
        goodput=_means(series.goodput, series.demand, factor),
        levels=_sums(series.levels, factor).astype(np.int64),
        loading=_evenly(series.loading, factor),
        holding=_evenly(series.holding, factor),
        busy=_evenly(series.busy, factor),
    )


def values(column: Floats) -> list[float | None]:
    """List a column; None where nobody knows."""
    return [None if np.isnan(value) else float(value) for value in column]


def shares(part: Counts, whole: Counts) -> list[float | None]:
    """Divide; None where there is nothing to divide by."""
    pairs = zip(part.tolist(), whole.tolist(), strict=True)
    return [one / all_ if all_ else None for one, all_ in pairs]


def _groups(column: Floats, factor: int) -> Floats:
    """Lay a column out as [groups, factor, …]; what the last group lacks is nan."""
    lacking = -len(column) % factor
    filled = np.concatenate([column, np.full((lacking, *column.shape[1:]), np.nan)])
    return filled.reshape(-1, factor, *column.shape[1:])


def _sums(column: Counts, factor: int) -> Floats:
    total: Floats = np.nansum(_groups(column.astype(np.float64), factor), axis=1)
    return total


def _means(column: Floats, counts: Counts, factor: int) -> Floats:
    known = np.where(np.isnan(column), 0, counts)
    total, added = _sums(known, factor), _groups(np.nan_to_num(column) * known, factor)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean: Floats = np.nansum(added, axis=1) / total
    return mean


def _evenly(column: Floats, factor: int) -> Floats:
    parts = _groups(column, factor)
    there = (~np.isnan(parts)).sum(axis=1)
    mean: Floats = np.nansum(parts, axis=1) / np.maximum(there, 1)
    return mean
