"""Outcome of one policy in one world: a column entry a job, and what the fleet did. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Level of a job that was never placed.
NO_LEVEL = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNote:
    """What one plan promised when it was published."""

    at_s: float  #: of the workload's time
    demand: float  #: jobs/s that it was made for
    quality: float | None  #: mean relative quality of what it serves; None: it serves nothing
    saturation: float  #: share of the demand that it leaves unserved
    deciding_s: float  #: CPU time that the decision took


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """What happened by stretches of equal length, from the first arrival on.

    Shapes: [S] stretches, [S, L] levels, [S, M] models.
    """

    stretch_s: float
    demand: NDArray[np.int64]  #: [S], jobs that arrived
    done: NDArray[np.int64]  #: [S], jobs that ended with their images
    late: NDArray[np.int64]  #: [S], late jobs, by when they arrived
    quality: Floats  #: [S], mean of the jobs that ended; nan where none did
    goodput: Floats  #: [S], of the jobs that arrived; nan where none did
    levels: NDArray[np.int64]  #: [S, L], jobs that ended, by level
    loading: Floats  #: [S], workers that load a model, on average
    holding: Floats  #: [S, M], workers that are up and serve a model, on average
    busy: Floats  #: [S], share of the time of workers that are up in which they compute

    @property
    def begins_s(self) -> Floats:
        """When each stretch begins."""
        return np.arange(len(self.demand), dtype=np.float64) * self.stretch_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolicyOutcome:
    """What became of every job of a workload, in its order, and of the fleet."""

    policy: str
    seed: int  #: of the world
    levels: tuple[str, ...]  #: that `level` points into
    models: tuple[str, ...]  #: that the columns of `series.holding` stand for
    at_s: Floats  #: [N], arrival
    slo_s: Floats  #: [N], promised after arrival
    ended_s: Floats  #: [N], when its images were there, of the workload's time; nan: never
    level: NDArray[np.int16]  #: [N], that it really got; `NO_LEVEL`: it was never placed
    quality: Floats  #: [N], of its prompt at that level, relative; nan where nobody knows
    was_refused: NDArray[np.bool_]  #: [N], for good, when it came
    was_canceled: NDArray[np.bool_]  #: [N], by its client, before it ended
    loads: int  #: of models, from the first arrival on
    up_s: Mapping[str, float]  #: device type -> seconds that its workers were up, added up
    busy_s: Mapping[str, float]  #: device type -> seconds of these that they computed
    plans: tuple[PlanNote, ...]  #: in the order in which they were published
    series: Series

    @property
    def is_counted(self) -> NDArray[np.bool_]:
        """[N], whose client did not take it back: figures are over these."""
        return ~self.was_canceled

    @property
    def was_late(self) -> NDArray[np.bool_]:
        """[N], ended after what was promised, was refused, or never ended."""
        return ~(self.ended_s - self.at_s <= self.slo_s) & self.is_counted

    @property
    def goodput(self) -> float:
        """Quality of jobs in time, added up, over all jobs asked for: late ones count 0."""
        asked = int(self.is_counted.sum())
        in_time = self.is_counted & ~self.was_late
        return float(np.nansum(self.quality[in_time])) / asked if asked else 0.0

    @property
    def utilisation(self) -> float:
        """Share of the time of workers that were up in which they computed."""
        whole = sum(self.up_s.values())
        return sum(self.busy_s.values()) / whole if whole > 0 else 0.0

    def latency_s(self, share: float) -> float | None:
        """Give a percentile of the time from arrival to images; None: no job ended."""
        taken = (self.ended_s - self.at_s)[~np.isnan(self.ended_s)]
        return float(np.quantile(taken, share)) if len(taken) else None

    def figures(self) -> dict[str, object]:
        """Sum it up for machines; late is a share of the jobs, levels are shares of those made."""
        asked, made = int(self.is_counted.sum()), ~np.isnan(self.ended_s)
        count = np.bincount(self.level[made].astype(np.int64), minlength=len(self.levels))
        shares = count / max(1, int(made.sum()))
        known = self.quality[made & ~np.isnan(self.quality)]
        return {
            "policy": self.policy,
            "seed": self.seed,
            "jobs": asked,
            "made": int(made.sum()),
            "refused": int(self.was_refused.sum()),
            "canceled": int(self.was_canceled.sum()),
            "late": float(self.was_late.sum()) / asked if asked else 0.0,
            "quality": float(known.mean()) if len(known) else None,
            "goodput": self.goodput,
            "loads": self.loads,
            "utilisation": self.utilisation,
            "p50_s": self.latency_s(0.5),
            "p95_s": self.latency_s(0.95),
            "p99_s": self.latency_s(0.99),
            "levels": {name: float(s) for name, s in zip(self.levels, shares, strict=True) if s},
            "up_s": dict(self.up_s),
            "busy_s": dict(self.busy_s),
            "plans": len(self.plans),
        }
