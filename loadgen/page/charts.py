"""Draw a run over time: what was asked, what came, how late, how good, at which levels."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from loadgen.promise import is_late, kept, mean_quality
from loadgen.report import Bin, Report, shares
from loadgen.sample import ClientOutcome, RequestSample
from reporting.chart import Chart, Curve, Mark, Shape
from reporting.palette import ramp
from reporting.unit import COUNT, PER_SECOND, QUALITY, SECONDS, SHARE

#: Points of a cumulative curve: enough for the eye, few enough for a small file.
POINTS = 201

Samples = Sequence[RequestSample]


def over_time(report: Report, samples: Samples) -> Iterator[Chart]:
    """Draw what changes over time, as far as the run knows it."""
    series, slo_s = report.series, report.slo_s
    yield _throughput(series)
    yield _in_flight(series)
    if slo_s is not None:
        asked = _cut(kept(samples), series, lambda sample: sample.due_s)
        yield _late(series, asked, slo_s)
    good = [sample for sample in samples if sample.ending is ClientOutcome.SUCCEEDED]
    made = _cut(good, series, lambda sample: sample.ended_s)
    if report.quality is not None:
        yield _quality(series, made)
    if len(report.levels) > 1:
        yield _levels(series, made, levels_in_order(report, samples))


def levels_in_order(report: Report, samples: Samples) -> list[str]:
    """List the levels by model, the best images first where that is known, then by its steps."""
    models = {level.rpartition("@")[0] for level in report.levels}
    worth = {
        model: mean_quality([sample for sample in samples if sample.model == model]) or 0.0
        for model in models
    }

    def place(level: str) -> tuple[float, str, float, str]:
        model, _, code = level.rpartition("@")
        return -worth[model], model, float(code) if code.isdecimal() else math.inf, code

    return sorted(report.levels, key=place)


def _cut(
    samples: Samples, series: Sequence[Bin], moment: Callable[[RequestSample], float]
) -> list[list[RequestSample]]:
    """Sort samples into the stretches of a run."""
    rows: list[list[RequestSample]] = [[] for _ in series]
    for sample in samples:
        rows[min(len(rows) - 1, int(moment(sample) / series[0].width_s))].append(sample)
    return rows


def _late(series: Sequence[Bin], asked: Sequence[Samples], slo_s: float) -> Chart:
    parts = [
        sum(is_late(sample, slo_s) for sample in row) / len(row) if row else None for row in asked
    ]
    return Chart(
        name="late",
        title="Late",
        about="Of the requests that were due in a stretch.",
        x=[each.at_s for each in series],
        unit=SHARE,
        curves=[Curve(name="late", values=parts, paint="c1")],
    )


def _quality(series: Sequence[Bin], made: Sequence[Samples]) -> Chart:
    return Chart(
        name="quality",
        title="Quality",
        about="Mean of the images made in a stretch.",
        x=[each.at_s for each in series],
        unit=QUALITY,
        low=None,
        high=1.0,
        curves=[Curve(name="quality", values=[mean_quality(row) for row in made], paint="c2")],
    )


def _levels(series: Sequence[Bin], made: Sequence[Samples], levels: Sequence[str]) -> Chart:
    parts = [shares(sample.level for sample in row if sample.level) for row in made]
    curves = [
        Curve(
            name=level,
            values=[row.get(level, 0.0) if row else None for row in parts],
            paint=paint,
            shape=Shape.AREA,
        )
        for level, paint in ramp(levels).items()
    ]
    return Chart(
        name="levels",
        title="Levels",
        about="Of the images made in a stretch.",
        x=[each.at_s for each in series],
        unit=SHARE,
        high=1.0,
        is_stacked=True,
        curves=curves,
    )


def _throughput(series: Sequence[Bin]) -> Chart:
    return Chart(
        name="throughput",
        title="Throughput",
        about="Requests that were due, and jobs that succeeded.",
        x=[each.at_s for each in series],
        unit=PER_SECOND,
        curves=[
            Curve(
                name="asked",
                values=[each.asked / each.width_s for each in series],
                paint="muted",
                shape=Shape.AREA,
            ),
            Curve(
                name="succeeded",
                values=[each.succeeded / each.width_s for each in series],
                paint="c0",
            ),
        ],
    )


def _in_flight(series: Sequence[Bin]) -> Chart:
    return Chart(
        name="in_flight",
        title="In flight",
        about="Requests that were sent and had not ended.",
        x=[each.at_s for each in series],
        unit=COUNT,
        curves=[
            Curve(
                name="in flight",
                values=[float(each.in_flight) for each in series],
                paint="c0",
                shape=Shape.STEP,
            )
        ],
    )


def latency(samples: Sequence[RequestSample], slo_s: float | None) -> Chart:
    """Draw which share of the jobs that succeeded was done within so many seconds."""
    seconds = [sample.latency_s for sample in samples if sample.ending is ClientOutcome.SUCCEEDED]
    parts = np.linspace(0.0, 1.0, POINTS)
    at = [float(value) for value in np.quantile(seconds, parts)] if seconds else []
    marks = [
        Mark(at=float(np.quantile(seconds, part)), text=name, is_upright=True)
        for part, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
        if seconds
    ]
    if slo_s is not None and seconds and slo_s <= max(seconds):
        marks.append(Mark(at=slo_s, text="SLO", is_upright=True))
    return Chart(
        name="latency",
        title="Latency",
        about="Share of the jobs that succeeded, by the seconds from due to done.",
        x=at,
        x_unit=SECONDS,
        unit=SHARE,
        high=1.0,
        curves=[Curve(name="done", values=[float(part) for part in parts[: len(at)]], paint="c0")],
        marks=marks,
    )
