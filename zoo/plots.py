"""Plots of a profile, after Argus Fig. 8, 9 and 13.

`python -m zoo.plots zoo/profile.json --out docs/images`
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from core.levels.level import Level
from scheduler.profile.profile_file import (
    CACHED,
    EVERY,
    SMALLER,
    Assignment,
    LevelFamily,
    Measured,
    read_measured,
)
from scheduler.routing.classify import ANY

#: Okabe and Ito's colours: told apart by colour-blind eyes. One for each model.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SOFT = "#9a9a9a"
#: One for each K / 5: levels of a model differ by shape as well.
MARKERS = "osD^vX"

_LEGEND = {"fontsize": 8, "frameon": False}

TITLES = {
    CACHED: "Approximate caching (K of 50, best model)",
    SMALLER: "Smaller models (K = 0)",
    EVERY: "All levels",
}

#: A level that is optimal for so many prompts matters.
BAR = 0.08


def pareto(measured: Measured) -> Figure:
    """Plot mean relative quality over images a second, for every level (Argus Fig. 13)."""
    family, tau = measured.families[EVERY], measured.tau[measured.about.device]
    points = {name: (1 / tau[name], family.quality[ANY][name]) for name in family.levels}
    figure, (axes,) = _figure(1, (7.0, 4.2))
    axes.plot(*zip(*_frontier(list(points.values())), strict=True), color=SOFT, lw=1, zorder=0)
    for model, colour in _colours(family.levels).items():
        levels = sorted(
            (name for name in points if Level.read(name).model == model),
            key=Level.read,
        )
        axes.plot(*zip(*(points[n] for n in levels), strict=True), color=colour, lw=0.6, ls=":")
        for name in levels:
            axes.plot(
                *points[name], _marker(name), color=colour, ms=8 if name.endswith("@0") else 5
            )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    _label(axes, "images per second of one device, one at a time", "mean relative quality")
    _entitle(axes, "Quality and throughput of every level; grey: the frontier")
    figure.legend(handles=_legend(family.levels), loc="outside right upper", **_LEGEND)
    return figure


def shares(measured: Measured) -> Figure:
    """Plot for how many prompts each level is the optimal one (Argus Fig. 8)."""
    names = [name for name in (CACHED, SMALLER, EVERY) if name in measured.families]
    figure, panels = _figure(len(names), (11.0, 4.6))
    for axes, name in zip(panels, names, strict=True):
        family = measured.families[name]
        colours, levels = _colours(measured.families[EVERY].levels), family.levels
        values = [family.shares[level] for level in levels]
        bars = [colours[Level.read(level).model] for level in levels]
        axes.barh(range(len(levels)), values, color=bars)
        axes.set_yticks(range(len(levels)), levels, fontsize=7 if len(levels) > 8 else 8)
        axes.invert_yaxis()
        axes.axvline(BAR, color=SOFT, ls="--", lw=0.8)
        _entitle(axes, TITLES[name])
        _label(axes, "share of prompts; fastest level on top", "")
    return figure


def assignment(measured: Measured) -> Figure:
    """Plot quality with every prompt at its optimal level and with levels shuffled (Fig. 9)."""
    names = [name for name in (CACHED, SMALLER) if name in measured.families]
    figure, panels = _figure(len(names), (9.0, 4.0))
    for axes, name in zip(panels, names, strict=True):
        _paint_assignment(axes, measured.families[name], TITLES[name])
    _label(panels[0], "", "mean relative quality")
    handles = panels[0].get_legend_handles_labels()[0]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, **_LEGEND)
    return figure


def _paint_assignment(axes: Axes, family: LevelFamily, title: str) -> None:
    used = [level for level in family.levels if family.shares[level] > 0]
    at, width = np.arange(len(used) + 1), 0.4
    kept = [family.quality[level][level] for level in used]
    random = [family.quality[ANY][level] for level in used]
    found, errors = family.assignment, None
    if found is not None:
        kept, random = [*kept, found.optimal], [*random, found.random]
        nothing = [0.0] * len(used)
        errors = ([*nothing, found.random - found.low], [*nothing, found.high - found.random])
        title = f"{title}: {_gain(found)}"
    _entitle(axes, title)
    axes.bar(at - width / 2, kept, width, color=COLOURS[0], label="its own prompts")
    axes.bar(at + width / 2, random, width, yerr=errors, color=COLOURS[4], label="random prompts")
    axes.set_xticks(at, [*(level.replace("@", "\n@") for level in used), "together"], fontsize=8)
    axes.set_ylim(0, 1.05)


def _gain(found: Assignment) -> str:
    gain, other = found.optimal / found.random - 1, found.gain_on_other_noise
    return f"{gain:+.1%}" + ("" if other is None else f" ({other:+.1%} on other noise)")


def _figure(panels: int, size: tuple[float, float]) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=size, layout="constrained", dpi=110)
    row = list(figure.subplots(1, panels, squeeze=False)[0])
    for axes in row:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    return figure, row


def _entitle(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=9)


def _label(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)


def _frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep the points that no other beats in both."""
    kept: list[tuple[float, float]] = []
    for point in sorted(points, reverse=True):
        if not kept or point[1] > kept[-1][1]:
            kept.append(point)
    return kept


def _marker(level: str) -> str:
    return MARKERS[Level.read(level).approximation.skipped_steps // 5]


def _colours(levels: Sequence[str]) -> dict[str, str]:
    """Give each model a colour, the slowest first."""
    models = dict.fromkeys(Level.read(level).model for level in reversed(levels))
    return {model: COLOURS[i % len(COLOURS)] for i, model in enumerate(models)}


def _legend(levels: Sequence[str]) -> list[Line2D]:
    models = [Line2D([], [], color=c, lw=3, label=m) for m, c in _colours(levels).items()]
    skips = sorted({Level.read(level).approximation.skipped_steps for level in levels})
    marks = [
        Line2D([], [], color=SOFT, marker=MARKERS[k // 5], ls="", label=f"K = {k}") for k in skips
    ]
    return models + marks


PLOTS: dict[str, Callable[[Measured], Figure]] = {
    "pareto": pareto,
    "optimal-levels": shares,
    "optimal-against-random": assignment,
}


def main(
    profile: Annotated[Path, typer.Argument(help="Written by `zoo.quality.profile`.")],
    out: Annotated[Path, typer.Option(help="Where the PNG files go.")] = Path("docs/images"),
) -> None:
    """Draw a profile.

    Example: python -m zoo.plots zoo/profile.json --out docs/images
    """
    measured = read_measured(profile)
    if measured.about.device not in measured.tau:
        raise typer.BadParameter(f"{profile} is no measured profile")
    out.mkdir(parents=True, exist_ok=True)
    for name, plot in PLOTS.items():
        plot(measured).savefig(out / f"{name}.png", metadata={"Software": None})


if __name__ == "__main__":
    typer.run(main)
