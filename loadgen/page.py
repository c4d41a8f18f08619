"""Render a run as one self-contained HTML report."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

from loadgen import plots
from loadgen.report import Report, Spread, summarise
from loadgen.sample import RequestSample

TEMPLATE = Path(__file__).with_name("report.html")

#: Seconds by which the median request may leave late before the figures mean little.
MAX_LATENESS_S = 0.05


def _row(name: str, found: Spread | None) -> str:
    if found is None:
        return ""
    figures = (found.mean, found.p50, found.p90, found.p95, found.p99, found.max)
    cells = "".join(f"<td>{figure:.3f}</td>" for figure in figures)
    return f"<tr><td>{escape(name)}</td><td>{found.count}</td>{cells}</tr>"


def _rows(report: Report) -> str:
    spreads = {
        "due to done": report.latency,
        **{name.removesuffix("_s"): found for name, found in report.stages.items()},
        "submit answered": report.accept,
        "sent late by": report.lateness,
    }
    return "\n".join(_row(name, found) for name, found in spreads.items())


def _warning(report: Report) -> str:
    if report.lateness is None or report.lateness.p50 <= MAX_LATENESS_S:
        return ""
    return (
        '<p class="warning">This client sent its requests late: it was the bottleneck, '
        "so the figures say little about the service.</p>"
    )


def render(report: Report, samples: Sequence[RequestSample]) -> str:
    """Write the page, with its plots inside."""
    drawn = [
        plots.throughput(report),
        plots.latency(samples),
        plots.stages(report),
        plots.levels(report),
        plots.endings(report),
    ]
    run = " ".join(f"<code>{escape(k)} {escape(str(v))}</code>" for k, v in report.run.items())
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title="Load report",
        summary=escape(summarise(report)),
        warning=_warning(report),
        run=run,
        rows=_rows(report),
        plots="\n".join(f"<div>{plot}</div>" for plot in drawn),
    )
