"""Measure in which share of pictures each ControlNet's condition is met.

`python -m zoo.control.report --base zoo/weights/shapes-xl`
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from rich.console import Console
from rich.table import Table

from zoo.card import write_figures
from zoo.control.condition import Kind
from zoo.control.measure import is_met
from zoo.control.sheet import save_sheet
from zoo.control.steer import load, steer
from zoo.evaluate import PROMPT_SEED, Settings, through_autoencoder
from zoo.scenes import LEVELS, Picture, Scene, draw, held_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """In which share of the pictures the condition of a scene is met."""

    #: Which condition.
    kind: Kind
    #: Pictures made under it.
    steered: float
    #: Likewise by level.
    by_level: dict[int, float]
    #: Pictures made with the ControlNet at scale 0: the caption alone.
    unsteered: float
    #: True pictures through the autoencoder: the best there is.
    autoencoded: float
    #: True pictures of the next scene: what chance gives.
    others: float


def _met(kind: Kind, pictures: Sequence[Picture], scenes: Sequence[Scene]) -> float:
    pairs = zip(pictures, scenes, strict=True)
    return float(np.mean([is_met(kind, picture, scene) for picture, scene in pairs]))


def _figures(
    kind: Kind, scenes: Sequence[Scene], sources: Mapping[str, Sequence[Picture]]
) -> Figures:
    levels = sorted({scene.level for scene in scenes})
    steered = list(zip(sources["steered"], scenes, strict=True))
    rows = {level: [pair for pair in steered if pair[1].level == level] for level in levels}
    true = [draw(scene) for scene in scenes]
    return Figures(
        kind=kind,
        steered=_met(kind, sources["steered"], scenes),
        by_level={level: _met(kind, *zip(*pairs, strict=True)) for level, pairs in rows.items()},
        unsteered=_met(kind, sources["unsteered"], scenes),
        autoencoded=_met(kind, sources["autoencoded"], scenes),
        others=_met(kind, [*true[1:], true[0]], scenes),
    )


def measure(
    base: Path, folders: Mapping[Kind, Path], scenes: Sequence[Scene], settings: Settings
) -> tuple[list[Figures], dict[str, list[Picture]]]:
    """Make every scene under every condition; give the figures, and the pictures by source."""
    pictures: dict[str, list[Picture]] = {}
    for kind, folder in folders.items():
        pipeline = load(base, folder)
        if not pictures:
            # At scale 0 all ControlNets are silent alike.
            pictures["unsteered"] = steer(pipeline, kind, scenes, settings, scale=0.0)
            true = [draw(scene) for scene in scenes]
            pictures["autoencoded"] = through_autoencoder(pipeline, true)
        pictures[kind] = steer(pipeline, kind, scenes, settings, scale=1.0)
    rows = [_figures(kind, scenes, pictures | {"steered": pictures[kind]}) for kind in folders]
    return rows, pictures


def _cells(row: Figures) -> list[str]:
    shares = [row.steered, *row.by_level.values(), row.unsteered, row.autoencoded, row.others]
    return [row.kind.value, *(f"{share:.2f}" for share in shares)]


def _columns(row: Figures) -> list[str]:
    levels = [f"level {level}" for level in row.by_level]
    return ["condition", "met", *levels, "scale 0", "true, autoencoded", "other scene"]


def as_markdown(row: Figures, n: int, settings: Settings) -> str:
    """Lay out the figures for the card of a ControlNet."""
    columns = _columns(row)
    lines = [columns, ["---"] * len(columns), _cells(row)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return (
        f"\nShare of pictures in which the condition is met: {n} held-out scenes a level (seed "
        f"{settings.seed}) with their\ncaptions, stock `StableDiffusionXLControlNetPipeline`, "
        f"{settings.steps} steps, guidance {settings.guidance:g}. Beside it: the ControlNet\n"
        "at scale 0, true pictures through the autoencoder, and true pictures of other scenes.\n\n"
        f"{table}\n\n    python -m zoo.control.report --base zoo/weights/shapes-xl\n"
    )


def main(
    base: Annotated[Path, typer.Option(help="The steered model, a stock folder.")],
    controlnets: Annotated[Path, typer.Option(help="Holds a folder for each kind.")] = Path(
        "zoo/adapters/controlnets"
    ),
    n: Annotated[int, typer.Option(help="Scenes per level.")] = 20,
    steps: Annotated[int, typer.Option(help="Denoising steps.")] = 20,
    guidance: Annotated[float, typer.Option(help="Classifier-free guidance.")] = 4.0,
    seed: Annotated[int, typer.Option(help="Seed of scenes and noise.")] = PROMPT_SEED,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    grid: Annotated[Path | None, typer.Option(help="Write a sample grid here.")] = None,
    has_cards: Annotated[bool, typer.Option("--cards", help="Write into the READMEs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure the ControlNets.

    Example: python -m zoo.control.report --base zoo/weights/shapes-xl --grid grid.png
    """
    torch.set_num_threads(threads)
    settings = Settings(steps=steps, guidance=guidance, seed=seed)
    scenes = [scene for level in LEVELS for scene in held_out(level, n, seed)]
    folders = {kind: controlnets / kind for kind in Kind if (controlnets / kind).exists()}
    rows, pictures = measure(base, folders, scenes, settings)
    if grid:
        save_sheet(grid, scenes, pictures)
    if has_cards:
        for row in rows:
            write_figures(folders[row.kind], as_markdown(row, n, settings))
    console = Console()
    if as_json:
        console.print_json(json.dumps([asdict(row) for row in rows]))
        return
    table = Table(*_columns(rows[0]), title="share of pictures that meet the condition")
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)


app = typer.Typer(add_completion=False)
app.command()(main)

if __name__ == "__main__":
    app()
