"""Write what a GPU run has found as Markdown, with plots where matplotlib is installed."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.on_gpu.part import Outcome
from bench.parts.report import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE = "gpu-figures.md"
PICTURE = Path("images", "gpu-figures.png")
INK, SOFT = "#1f3a5f", "#9fb4cc"  #: of the engine, and of stock


def write(outcomes: Sequence[Outcome], where: str, to: Path, *, is_dry: bool) -> Path:
    """Write the report into a folder; return its path."""
    to.mkdir(parents=True, exist_ok=True)
    lines = ["# Figures of one GPU", ""]
    if is_dry:
        lines += ["**A dry run with tiny models on a CPU: no figure says anything of a GPU.**", ""]
    day = time.strftime("%Y-%m-%d", time.gmtime())
    lines += [
        f"Written by `make gpu` on {day}: {where}.",
        "",
        "Random weights of SDXL's size, bfloat16, 1024 pixels, 20 steps with guidance; medians of "
        "up to three rounds, stock diffusers and the engine in turn, the device idle around each.",
        "",
    ]
    if _draw(outcomes, to / PICTURE):
        lines += [f"![Seconds an image, and images a second]({PICTURE})", ""]
    for outcome in outcomes:
        lines += _section(outcome)
    path = to / FILE
    path.write_text("\n".join(lines))
    return path


def _section(outcome: Outcome) -> list[str]:
    lines = [f"## {outcome.part.title}", "", "| figure | value |", "|---|---|"]
    for name in outcome.part.figures:
        lines.append(f"| {name} | {_shown(outcome, name)} |")
    lines += ["", f"{outcome.seconds:.0f} s of {outcome.part.budget_s:.0f} s.", ""]
    if outcome.notes:
        lines += [*(f"- {each}" for each in outcome.notes), ""]
    return lines


def _shown(outcome: Outcome, name: str) -> str:
    figure = outcome.figures.get(name)
    if figure is None:
        return f"not run: {outcome.why_not}"
    return f"{figure.value:.4g} {figure.unit}"


def _draw(outcomes: Sequence[Outcome], path: Path) -> bool:
    """Draw all times of an image, and all rates; no, if nothing can be drawn."""
    try:
        from matplotlib.figure import Figure as Picture
    except ImportError:
        return False
    found = [
        (f"{outcome.part.title}: {name}", figure)
        for outcome in outcomes
        for name, figure in outcome.figures.items()
        if not name.startswith("first images")
    ]
    panels = [[pair for pair in found if pair[1].unit == unit] for unit in ("s", "images/s")]
    panels = [panel for panel in panels if panel]
    if not panels:
        return False
    heights = [len(panel) + 2 for panel in panels]
    picture = Picture(figsize=(8, 0.28 * sum(heights)), layout="constrained")
    axes = picture.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for each, panel in zip(axes, panels, strict=True):
        _bars(each, panel)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, dpi=120)
    return True


def _bars(axes: "Axes", panel: Sequence[tuple[str, Figure]]) -> None:
    names = [name for name, _ in panel]
    values = [figure.value for _, figure in panel]
    colours = [SOFT if name.endswith("stock") else INK for name in names]
    axes.barh(names, values, color=colours)
    axes.invert_yaxis()
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(panel[0][1].unit, fontsize=8)
