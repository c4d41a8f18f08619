"""Simulate policies in a world, and measure what a paper's figures show of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bench.parts.report import Figure, plain
from simulator.outcome import Floats, PolicyOutcome
from simulator.run import simulate
from simulator.world import World

#: Stretches that a lowest quality is sought among, in seconds; the means of shorter ones are noise.
WINDOW_S = 600.0
#: Fewest jobs of a stretch that is looked at.
FEWEST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What figures show of a policy. Quality is that of jobs in time (Proteus §6.1.4)."""

    late: float  #: share of the jobs: SLO violation ratio
    worst_late: float  #: the highest of a stretch
    quality: float  #: mean over jobs in time: effective accuracy
    lowest: float  #: the lowest of a stretch
    per_minute: float  #: jobs in time
    goodput: float  #: quality of jobs in time over all jobs
    loads: int


def late_of(outcome: PolicyOutcome, patience: float = 1.0) -> NDArray[np.bool_]:
    """[N], who took longer than so many times the SLO, or was never made."""
    return ~(outcome.ended_s - outcome.at_s <= patience * outcome.slo_s)


def see(
    outcome: PolicyOutcome,
    *,
    since_s: float = 0.0,
    until_s: float = np.inf,
    patience: float = 1.0,
) -> Seen:
    """Measure the jobs that came between two moments."""
    chosen = (outcome.at_s >= since_s) & (outcome.at_s < until_s) & outcome.is_counted
    late, quality = late_of(outcome, patience)[chosen], outcome.quality[chosen]
    at_s = outcome.at_s[chosen]
    stretches = list(_stretches(at_s))
    good = np.where(late, 0.0, quality)
    duration_s = float(at_s[-1] - at_s[0]) if len(at_s) > 1 else 1.0
    return Seen(
        late=float(late.mean()),
        worst_late=max((float(late[rows].mean()) for rows in stretches), default=0.0),
        quality=_mean(quality[~late]),
        lowest=min((_mean(quality[rows][~late[rows]]) for rows in stretches), default=1.0),
        per_minute=60 * float((~late).sum()) / duration_s,
        goodput=float(np.nansum(good)) / len(good),
        loads=outcome.loads,
    )


def run(world: World, policies: Sequence[str]) -> Iterator[tuple[str, PolicyOutcome]]:
    """Simulate one policy after another."""
    for policy in policies:
        yield policy, simulate(world, policy)


def figures_of(name: str, seen: Seen) -> dict[str, Figure]:
    """State what was seen of a policy in a world."""
    return {
        f"{name}: late": plain(seen.late, "share"),
        f"{name}: late, worst stretch": plain(seen.worst_late, "share"),
        f"{name}: quality": plain(seen.quality, "of the best"),
        f"{name}: quality, worst stretch": plain(seen.lowest, "of the best"),
        f"{name}: in time": plain(seen.per_minute, "jobs/min"),
        f"{name}: loads": plain(seen.loads, ""),
    }


def _stretches(at_s: Floats) -> Iterator[slice]:
    edges = np.arange(at_s[0], at_s[-1], WINDOW_S) if len(at_s) else np.empty(0)
    places = [*np.searchsorted(at_s, edges).tolist(), len(at_s)]
    for low, high in pairwise(places):
        if high - low >= FEWEST:
            yield slice(low, high)


def _mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else 0.0
