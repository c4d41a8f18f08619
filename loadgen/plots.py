"""Plots of a run as SVG text; nothing is written to disk."""

from collections.abc import Callable, Sequence
from io import StringIO

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadgen.report import STAGES, Report
from loadgen.sample import ClientOutcome, RequestSample

#: Points of a cumulative curve: enough for the eye, few enough for a small file.
CURVE = np.linspace(0, 100, 201)

INK, SOFT, GOOD, BAD = "#1f3a5f", "#9fb4cc", "#2a7f62", "#b3402a"


def _draw(paint: Callable[[Axes], None], title: str) -> str:
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    paint(axes)
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def _note_nothing(axes: Axes) -> None:
    axes.text(0.5, 0.5, "nothing to show", ha="center", va="center", color=SOFT)
    axes.set_axis_off()


def throughput(report: Report) -> str:
    """Draw requests due and jobs done a second, and jobs in flight, over time."""

    def paint(axes: Axes) -> None:
        at = [stretch.at_s for stretch in report.series]
        asked = [stretch.asked / stretch.width_s for stretch in report.series]
        done = [stretch.succeeded / stretch.width_s for stretch in report.series]
        axes.step(at, asked, where="post", color=SOFT, label="asked /s")
        axes.step(at, done, where="post", color=GOOD, label="succeeded /s")
        axes.set_xlabel("seconds", fontsize=8)
        beside = axes.twinx()
        flights = [stretch.in_flight for stretch in report.series]
        beside.plot(at, flights, color=INK, linewidth=0.8, linestyle=":", label="in flight")
        beside.tick_params(labelsize=8)
        axes.legend(fontsize=8, frameon=False, loc="upper left")
        beside.legend(fontsize=8, frameon=False, loc="upper right")

    return _draw(paint, "Throughput over time")


def latency(samples: Sequence[RequestSample]) -> str:
    """Draw which part of the jobs was done within so many seconds."""
    seconds = [sample.latency_s for sample in samples if sample.ending is ClientOutcome.SUCCEEDED]

    def paint(axes: Axes) -> None:
        if not seconds:
            return _note_nothing(axes)
        axes.plot(np.percentile(seconds, CURVE), CURVE, color=INK)
        for part in (50, 95, 99):
            value = float(np.percentile(seconds, part))
            axes.axvline(value, color=SOFT, linewidth=0.8)
            axes.annotate(f"p{part} {value:.2f} s", (value, 4), fontsize=7, rotation=90)
        axes.set_xlim(left=0)
        axes.set_xlabel("seconds from due to done", fontsize=8)
        axes.set_ylabel("% of the jobs", fontsize=8)

    return _draw(paint, "Latency")


def stages(report: Report) -> str:
    """Draw where the time of a job went: the median and the slowest twentieth."""

    def paint(axes: Axes) -> None:
        if not report.stages:
            return _note_nothing(axes)
        names = [name for name in STAGES if name in report.stages]
        rows = np.arange(len(names))
        axes.barh(rows - 0.18, [report.stages[n].p50 for n in names], 0.34, color=INK, label="p50")
        axes.barh(rows + 0.18, [report.stages[n].p95 for n in names], 0.34, color=SOFT, label="p95")
        axes.set_yticks(rows, [name.removesuffix("_s") for name in names])
        axes.invert_yaxis()
        axes.set_xlabel("seconds", fontsize=8)
        axes.legend(fontsize=8, frameon=False)

    return _draw(paint, "Where a job's time went")


def _bars(values: dict[str, float], title: str, label: str, colour: str) -> str:
    def paint(axes: Axes) -> None:
        if not values:
            return _note_nothing(axes)
        axes.barh(list(values), list(values.values()), height=0.5, color=colour)
        axes.set_ylim(-0.75, max(len(values), 3) - 0.25)
        axes.invert_yaxis()
        axes.set_xlabel(label, fontsize=8)

    return _draw(paint, title)


def levels(report: Report) -> str:
    """Draw the share of each level."""
    return _bars(dict(report.levels), "Levels", "share of the jobs that succeeded", GOOD)


def endings(report: Report) -> str:
    """Draw how requests ended other than well, and why."""
    bad = {k: float(v) for k, v in report.endings.items() if k != ClientOutcome.SUCCEEDED}
    return _bars({**bad, **report.errors}, "What went wrong", "requests", BAD)
