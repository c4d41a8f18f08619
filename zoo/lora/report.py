"""Measure how far each LoRA moves the measure of its style.

`python -m zoo.lora.report --base zoo/weights/shapes-xl --steps 20`
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from diffusers import StableDiffusionXLPipeline
from rich.console import Console
from rich.progress import track
from rich.table import Table

from zoo.evaluate import PROMPT_SEED, Settings, generate
from zoo.lora.card import Card, Figures
from zoo.lora.sheet import save_sheet
from zoo.lora.stock import load_checked, open_base
from zoo.lora.styles import STYLES, Style
from zoo.scenes import LEVELS, Picture, Scene, draw, held_out

#: Pictures compared with a LoRA at scale 0.
_NEUTRAL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A LoRA's figures, and the pictures they come from."""

    #: What was found.
    figures: Figures
    #: The base model's prompts drawn with the LoRA.
    pictures: list[Picture]


def measure(
    pipeline: StableDiffusionXLPipeline,
    path: Path,
    style: Style,
    scenes: Sequence[Scene],
    plain: Sequence[Picture],
    settings: Settings,
) -> Measured:
    """Draw scenes with a LoRA and compare them with the base model's pictures of them.

    Raises: LoraFileError if stock diffusers does not take the whole file.
    """
    captions = [scene.caption for scene in scenes]
    layers = load_checked(pipeline, path, style)
    pictures = generate(pipeline, captions, settings)
    pipeline.set_adapters(style.name, 0.0)
    unmoved = generate(pipeline, captions[:_NEUTRAL], settings)
    pipeline.unload_lora_weights()
    base, styled = _measures(style, plain), _measures(style, pictures)
    figures = Figures(
        pictures=len(pictures),
        steps=settings.steps,
        guidance=settings.guidance,
        base=float(base.mean()),
        base_sd=float(base.std(ddof=1)),
        styled=float(styled.mean()),
        true=float(_measures(style, [style.restyle(draw(scene)) for scene in scenes]).mean()),
        shift=float((styled.mean() - base.mean()) / base.std(ddof=1)),
        layers=layers,
        is_neutral_at_zero=_are_equal(unmoved, plain[:_NEUTRAL]),
    )
    return Measured(figures=figures, pictures=pictures)


def _measures(style: Style, pictures: Sequence[Picture]) -> np.ndarray:
    return np.array([style.measure(picture) for picture in pictures])


def _are_equal(some: Sequence[Picture], others: Sequence[Picture]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(some, others, strict=True))


def report(
    base: Path, loras: Path, scenes: Sequence[Scene], settings: Settings
) -> tuple[list[Picture], dict[str, Measured]]:
    """Measure every style whose file lies in a folder.

    Returns the base model's pictures, and what each LoRA does.
    """
    pipeline = open_base(base)
    files = {name: loras / f"{name}.safetensors" for name in STYLES}
    present = {name: path for name, path in files.items() if path.exists()}
    plain = generate(pipeline, [scene.caption for scene in scenes], settings)
    measured = {
        name: measure(pipeline, path, STYLES[name], scenes, plain, settings)
        for name, path in track(present.items(), description="styles", transient=True)
    }
    return plain, measured


def as_table(measured: dict[str, Measured]) -> Table:
    """Lay out the figures of all styles."""
    table = Table("style", "base", "sd", "LoRA", "true", "shift (sd)", "layers", "neutral at 0")
    for name, each in measured.items():
        found = each.figures
        values = (found.base, found.base_sd, found.styled, found.true)
        shown = [f"{value:.3f}" for value in values]
        neutral = "yes" if found.is_neutral_at_zero else "NO"
        table.add_row(name, *shown, f"{found.shift:.1f}", str(found.layers), neutral)
    return table


def main(
    base: Annotated[Path, typer.Option(help="The stock folder of the model they are for.")],
    loras: Annotated[Path, typer.Option(help="The files' folder.")] = Path("zoo/adapters/loras"),
    n: Annotated[int, typer.Option(help="Prompts per level.")] = 16,
    steps: Annotated[int, typer.Option(help="Denoising steps.")] = 20,
    guidance: Annotated[float, typer.Option(help="Classifier-free guidance.")] = 4.0,
    seed: Annotated[int, typer.Option(help="Seed of prompts and noise.")] = PROMPT_SEED,
    grid: Annotated[Path | None, typer.Option(help="Write a sheet of samples here.")] = None,
    has_cards: Annotated[
        bool, typer.Option("--cards", help="Write the figures into the files' cards.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure style LoRAs against the model they are for.

    Example: python -m zoo.lora.report --base zoo/weights/shapes-xl --grid grid.png
    """
    scenes = [scene for level in LEVELS for scene in held_out(level, n, seed)]
    settings = Settings(steps=steps, guidance=guidance, seed=seed)
    plain, measured = report(base, loras, scenes, settings)
    if grid:
        rows = {"base": plain} | {name: each.pictures for name, each in measured.items()}
        save_sheet(grid, [scene.caption for scene in scenes], rows)
    if has_cards:
        for name, each in measured.items():
            path = loras / f"{name}.json"
            replace(Card.read(path), figures=each.figures).write(path)
    console = Console()
    if as_json:
        figures = {name: asdict(each.figures) for name, each in measured.items()}
        console.print_json(json.dumps(figures))
        return
    console.print(as_table(measured))


if __name__ == "__main__":
    typer.run(main)
