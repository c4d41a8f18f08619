"""Lay a run against a live service out as a report for people."""

from collections.abc import Iterator, Mapping, Sequence

from loadgen.page.charts import latency, levels_in_order, over_time
from loadgen.report import STAGES, Report, Spread, summarise
from loadgen.sample import ClientOutcome, RequestSample
from reporting.chart import Shares
from reporting.document import Block, Chapter, Document, KeyFigure
from reporting.palette import ramp
from reporting.table import Column, Row, Table
from reporting.unit import COUNT, NOTHING, PER_SECOND, QUALITY, SECONDS, SHARE

#: Seconds by which the median request may leave late before the figures mean little.
MAX_LATENESS_S = 0.05


TOO_LATE = (
    "This client sent its requests late: it was the bottleneck, "
    "so the figures say little about the service."
)
WORDS = {
    "due": "When the arrival process wanted a request sent. Latency counts from here, so that a "
    "slow client cannot hide a slow service.",
    "done": "When the client knew that its job had ended.",
    "p95": "95 of 100 jobs took no longer.",
    "late": "Not an image within the SLO, from when it was due.",
    "goodput": "Quality of the requests on time, added up, over all requests; an image of unknown "
    "quality counts 1.",
}


def lay_out(report: Report, samples: Sequence[RequestSample]) -> Document:
    """Say what a run showed."""
    is_late = report.lateness is not None and report.lateness.p50 > MAX_LATENESS_S
    return Document(
        title="Load report",
        answer=summarise(report),
        tone="" if report.endings.get(ClientOutcome.SUCCEEDED) else "bad",
        warnings=[TOO_LATE] if is_late else [],
        keys=list(_keys(report)),
        chapters=[
            Chapter(
                title="Over time",
                about="One cursor moves over all figures of this run: hover, touch, or arrow keys.",
                blocks=list(over_time(report, samples)),
            ),
            Chapter(
                title="How long it took", blocks=[latency(samples, report.slo_s), _seconds(report)]
            ),
            Chapter(title="What came of it", blocks=list(_endings(report, samples))),
        ],
        run=dict(report.run),
        notes=WORDS,
    )


def _keys(report: Report) -> Iterator[KeyFigure]:
    good = report.endings.get(ClientOutcome.SUCCEEDED, 0)
    part = SHARE.write(good / report.asked) if report.asked else NOTHING
    yield KeyFigure(title="Became images", figure=part, about=f"{good} of {report.asked}")
    if report.slo_s is not None:
        promised = f"SLO {SECONDS.write(report.slo_s)}"
        yield KeyFigure(title="Late", figure=SHARE.write(report.late), about=promised)
        yield KeyFigure(title="Goodput", figure=QUALITY.write(report.goodput))
    if report.quality is not None:
        yield KeyFigure(title="Quality", figure=QUALITY.write(report.quality))
    asked, done = PER_SECOND.write(report.offered_per_s), PER_SECOND.write(report.succeeded_per_s)
    yield KeyFigure(title="Done", figure=done, about=f"{asked} asked")
    if report.latency:
        middle, p95 = SECONDS.write(report.latency.p50), SECONDS.write(report.latency.p95)
        yield KeyFigure(title="p95", figure=p95, about=f"p50 {middle}")
        yield KeyFigure(title="p99", figure=SECONDS.write(report.latency.p99))


def _seconds(report: Report) -> Table:
    spreads = {
        "due to done": report.latency,
        **{f"· {name.removesuffix('_s')}": report.stages.get(name) for name in STAGES},
        "submit answered": report.accept,
        "sent late by": report.lateness,
    }
    columns = [Column(title="jobs", unit=COUNT)]
    columns += [Column(title="mean", unit=SECONDS), Column(title="p50", unit=SECONDS, has_bar=True)]
    columns += [Column(title=name, unit=SECONDS) for name in ("p90", "p95", "p99", "max")]
    return Table(
        title="Where the time went",
        about="Parts of a job are the service's own account, of jobs that succeeded.",
        head="seconds",
        columns=columns,
        rows=[
            Row(name=name, cells=[float(found.count), *_figures(found)])
            for name, found in spreads.items()
            if found
        ],
    )


def _figures(found: Spread) -> tuple[float, ...]:
    return found.mean, found.p50, found.p90, found.p95, found.p99, found.max


def _endings(report: Report, samples: Sequence[RequestSample]) -> Iterator[Block]:
    if report.levels:
        yield Shares(
            title="Levels",
            about="Of the jobs that succeeded.",
            parts=ramp(levels_in_order(report, samples)),
            rows={"this run": report.levels},
        )
    bad = {k: v for k, v in report.endings.items() if k != ClientOutcome.SUCCEEDED}
    yield _counted("How requests ended", "ending", report.endings)
    if bad:
        yield _counted("Why", "cause", report.errors)


def _counted(title: str, head: str, counts: Mapping[str, int]) -> Table:
    return Table(
        title=title,
        head=head,
        columns=[Column(title="requests", unit=COUNT, has_bar=True)],
        rows=[Row(name=name, cells=[float(count)]) for name, count in counts.items()],
    )


def rows_of(report: Report) -> list[dict[str, float | int]]:
    """List the stretches of a run, for CSV."""
    return [
        {
            "at_s": each.at_s,
            "width_s": each.width_s,
            "asked": each.asked,
            "succeeded": each.succeeded,
            "in_flight": each.in_flight,
        }
        for each in report.series
    ]
