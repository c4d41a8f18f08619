"""Draw days like a given one: stretches of it, changed with their neighbours. Pure."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadgen.workload import Workload

NEIGHBOURS = 3  #: a stretch is replaced by one at most so many stretches away
SLOS = 5.0  #: a stretch is so many times as long as the SLO
SHORTEST_S = 30.0  #: of a stretch


def another_day(workload: Workload, slo_s: float, *, seed: int) -> Workload:
    """Put a day together from stretches of a given one (a local block bootstrap).

    Bursts within a stretch stay as they were, and so does the course of the day; which bursts
    come, and what meets what, changes. The day itself is the one of seed zero.
    """
    if seed == 0 or not len(workload):
        return workload
    length_s = max(SHORTEST_S, SLOS * slo_s)
    count = max(1, round(workload.duration_s / length_s))
    edges = np.linspace(0.0, np.nextafter(workload.duration_s, np.inf), count + 1)
    rng = np.random.default_rng(seed)
    shifts = rng.integers(-NEIGHBOURS, NEIGHBOURS + 1, count)
    sources = np.clip(np.arange(count) + shifts, 0, count - 1)
    bounds = np.searchsorted(workload.at_s, edges)
    rows = [np.arange(bounds[source], bounds[source + 1]) for source in sources]
    moves = [
        np.full(len(part), edges[target] - edges[source])
        for target, (part, source) in enumerate(zip(rows, sources, strict=True))
    ]
    return taken(workload, np.concatenate(rows), np.concatenate(moves))


def taken(workload: Workload, rows: NDArray[np.int64], moves: NDArray[np.float64]) -> Workload:
    """Take some requests, each moved by some seconds, in the order in which they then come."""
    at_s = np.maximum(0.0, workload.at_s[rows] + moves)
    order = np.argsort(at_s, kind="stable")
    columns: dict[str, Any] = {
        name: column[rows][order] for name, column in workload.columns.items()
    }
    others = {name: columns.pop(name) for name in workload.others}
    return replace(workload, **{**columns, "at_s": at_s[order]}, others=others)


def busiest(workload: Workload, seconds: float) -> Workload:
    """Keep the stretch of so many seconds in which most images are asked for, from zero on."""
    if seconds >= workload.duration_s:
        return workload
    asked = np.concatenate([[0], np.cumsum(workload.images)])
    ends = np.searchsorted(workload.at_s, workload.at_s + seconds)
    first = int(np.argmax(asked[ends] - asked[:-1]))
    part = workload[first : int(ends[first])]
    return replace(part, at_s=part.at_s - part.at_s[0])
