"""Draw the charts of a report as one picture."""

from io import BytesIO
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator

from reporting.chart import Chart, Curve, Shape, is_empty
from reporting.document import Document
from reporting.palette import colour
from reporting.unit import Unit

WIDE, HIGH = 6.6, 3.2  #: inches of one chart
TOP = 1.2  #: inches above the first
#: Seconds between two ticks.
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 86400)
DOTS = 110  #: an inch


def draw(document: Document) -> bytes:
    """Draw every chart, two in a row, under the report's title and answer."""
    charts = document.charts
    rows = max(1, (len(charts) + 1) // 2)
    high = HIGH * rows + TOP
    figure = Figure(figsize=(2 * WIDE, high))
    figure.subplots_adjust(0.05, 0.8 / high, 0.98, 1 - TOP / high, wspace=0.14, hspace=0.75)
    title = fill(f"{document.title}. {document.answer}", 110)
    figure.suptitle(title, x=0.05, y=1 - 0.15 / high, ha="left", va="top", fontsize=13)
    for index, chart in enumerate(charts):
        _draw(chart, figure.add_subplot(rows, 2, index + 1))
    made = BytesIO()
    figure.savefig(made, format="png", dpi=DOTS, metadata={"Software": None})
    return made.getvalue()


def _draw(chart: Chart, axes: Axes) -> None:
    axes.set_title(chart.title, loc="left", fontsize=10, fontweight="bold")
    axes.spines[["top", "right", "left"]].set_visible(False)
    if is_empty(chart):
        axes.text(0.5, 0.5, "nothing to show", ha="center", color=colour("soft"))
        axes.set_axis_off()
        return
    axes.grid(axis="y", color=colour("line"), linewidth=0.6)
    axes.tick_params(labelsize=8, length=0, colors=colour("soft"))
    if chart.x_unit is None:
        axes.xaxis.set_major_locator(MultipleLocator(_step(chart.x[-1] - chart.x[0])))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: _when(at, chart.x_unit)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda at, _: _axis(chart.unit, at)))
    _paint(chart, axes)
    axes.set_ylim(bottom=chart.low, top=chart.high)
    for mark in chart.marks:
        line = axes.axvline if mark.is_upright else axes.axhline
        line(mark.at, color=colour("bad"), linestyle=":", linewidth=1.0, label=mark.text)
    below = {"loc": "upper left", "bbox_to_anchor": (-0.02, -0.1), "borderaxespad": 0.0}
    axes.legend(fontsize=7, frameon=False, ncols=5, **below)


def _paint(chart: Chart, axes: Axes) -> None:
    if chart.is_stacked:
        rows = [[value or 0.0 for value in each.values] for each in chart.curves]
        colours = [colour(each.paint) for each in chart.curves]
        names = [each.name for each in chart.curves]
        axes.stackplot(chart.x, rows, colors=colours, labels=names, step="post", linewidth=0)
        return
    for curve in chart.curves:
        _trace(curve, chart, axes)


def _trace(curve: Curve, chart: Chart, axes: Axes) -> None:
    values = [float("nan") if value is None else value for value in curve.values]
    ink, name = colour(curve.paint), curve.name
    if curve.shape is Shape.AREA:
        axes.fill_between(
            chart.x, values, step="post", alpha=0.25, linewidth=0, color=ink, label=name
        )
    elif curve.shape is Shape.STEP:
        axes.step(chart.x, values, where="post", linewidth=1.4, color=ink, label=name)
    else:
        axes.plot(chart.x, values, linewidth=1.4, color=ink, label=name)


def _step(seconds: float) -> float:
    """Choose the time between two ticks that gives eight of them at most."""
    return next((step for step in STEPS if seconds <= 8 * step), STEPS[-1])


def _axis(unit: Unit, at: float) -> str:
    return f"{unit.prefix}{at * unit.scale:,.6g}{unit.suffix}"


def _when(at: float, unit: Unit | None) -> str:
    if unit is not None:
        return _axis(unit, at)
    hours, rest = divmod(round(at), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
