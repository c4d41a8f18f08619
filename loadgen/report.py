"""Aggregate the samples of a run into the JSON report. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from loadgen.ask import Option
from loadgen.promise import goodput, late_share, mean_quality
from loadgen.sample import ClientOutcome, RequestSample

#: The parts of a job's time, in order; fields of `core.job.Timing`.
STAGES = ("queue_s", "prepare_s", "denoise_s", "finish_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Where a set of seconds lies."""

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """What happened in one stretch of the run."""

    at_s: float  #: its start
    width_s: float
    asked: int  #: requests due in it
    succeeded: int  #: jobs that succeeded in it
    in_flight: int  #: sent and not ended at its start


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run, summed up."""

    run: Mapping[str, Option]  #: what was asked for, to repeat it
    duration_s: float  #: from the start to the last end
    asked: int
    endings: Mapping[str, int]
    offered_per_s: float  #: requests due a second, from the first due to the last
    succeeded_per_s: float  #: jobs that succeeded a second, over the whole run
    latency: Spread | None  #: due to ended, jobs that succeeded
    accept: Spread | None  #: sent to accepted
    lateness: Spread | None  #: due to sent: this client's own delay; above 0.05 s distrust the run
    stages: Mapping[str, Spread]  #: the service's own account, jobs that succeeded
    levels: Mapping[str, float]  #: level -> share of the jobs that succeeded
    errors: Mapping[str, int]  #: cause -> requests
    slo_s: float | None = None  #: that late jobs took longer than, from their due time
    late: float | None = None  #: share of the requests; without an SLO it is not known
    quality: float | None = None  #: mean of the images, where prompts tell it at their level
    goodput: float | None = None  #: quality of requests on time, in all that were asked
    series: tuple[Bin, ...] = ()


def spread(seconds: Sequence[float]) -> Spread | None:
    """Take mean, percentiles and maximum; None of nothing."""
    if not seconds:
        return None
    p50, p90, p95, p99 = np.percentile(seconds, [50, 90, 95, 99])
    return Spread(
        count=len(seconds),
        mean=float(np.mean(seconds)),
        p50=float(p50),
        p90=float(p90),
        p95=float(p95),
        p99=float(p99),
        max=float(max(seconds)),
    )


def spread_stages(samples: Sequence[RequestSample]) -> dict[str, Spread]:
    """Spread each part of the jobs' time."""
    timings = [sample.timing for sample in samples if sample.timing]
    spreads = {name: spread([getattr(timing, name) for timing in timings]) for name in STAGES}
    return {name: found for name, found in spreads.items() if found}


def shares(levels: Iterable[str]) -> dict[str, float]:
    """Tell which part of the jobs got each level; the shares sum to one."""
    counts = Counter(levels)
    return {level: count / counts.total() for level, count in sorted(counts.items())}


def series(
    samples: Sequence[RequestSample], duration_s: float, *, bins: int = 60
) -> tuple[Bin, ...]:
    """Cut the run into at most `bins` stretches of at least one second."""
    width, count = max(1.0, duration_s / bins), min(bins, max(1, math.ceil(duration_s)))
    edges = [*(width * i for i in range(count)), math.inf]  # whatever ends last is in the last
    due, sent = sorted(s.due_s for s in samples), sorted(s.sent_s for s in samples)
    done = sorted(s.ended_s for s in samples if s.ending is ClientOutcome.SUCCEEDED)
    ended = sorted(s.ended_s for s in samples)
    return tuple(
        Bin(
            at_s=at,
            width_s=width,
            asked=_between(due, at, end),
            succeeded=_between(done, at, end),
            in_flight=_between(sent, -math.inf, at) - _between(ended, -math.inf, at),
        )
        for at, end in pairwise(edges)
    )


def _between(ordered: Sequence[float], low: float, high: float) -> int:
    return int(np.searchsorted(ordered, high) - np.searchsorted(ordered, low))


def make_report(
    samples: Sequence[RequestSample], run: Mapping[str, Option], *, slo_s: float | None = None
) -> Report:
    """Sum up a run."""
    succeeded = [sample for sample in samples if sample.ending is ClientOutcome.SUCCEEDED]
    duration_s = max((sample.ended_s for sample in samples), default=0.0)
    due = [sample.due_s for sample in samples]
    asking_s = max(due, default=0.0) - min(due, default=0.0)
    return Report(
        run=run,
        duration_s=duration_s,
        asked=len(samples),
        endings=dict(Counter(sample.ending.value for sample in samples)),
        offered_per_s=(len(samples) - 1) / asking_s if asking_s else 0.0,
        succeeded_per_s=len(succeeded) / duration_s if duration_s else 0.0,
        latency=spread([sample.latency_s for sample in succeeded]),
        accept=spread([s.accepted_s - s.sent_s for s in samples if s.accepted_s is not None]),
        lateness=spread([sample.sent_s - sample.due_s for sample in samples]),
        stages=spread_stages(succeeded),
        levels=shares(sample.level for sample in succeeded if sample.level),
        errors=dict(Counter(sample.error for sample in samples if sample.error)),
        slo_s=slo_s,
        late=None if slo_s is None else late_share(samples, slo_s),
        quality=mean_quality(samples),
        goodput=None if slo_s is None else goodput(samples, slo_s),
        series=series(samples, duration_s),
    )


def summarise(report: Report) -> str:
    """Say a run in one sentence."""
    good, found = report.endings.get(ClientOutcome.SUCCEEDED, 0), report.latency
    latency = f", p50 {found.p50:.2f} s, p99 {found.p99:.2f} s" if found else ""
    if report.late is not None and report.goodput is not None:
        latency += f", {report.late:.1%} late, goodput {report.goodput:.3f}"
    return (
        f"{good} of {report.asked} requests became images in {report.duration_s:.1f} s: "
        f"{report.offered_per_s:.2f} asked and {report.succeeded_per_s:.2f} done a second{latency}."
    )
