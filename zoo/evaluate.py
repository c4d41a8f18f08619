"""Evaluate a model on held-out prompts with the exact checker.

`python -m zoo.evaluate zoo/weights/shapes-xl --n 128 --steps 50`
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from diffusers import DiffusionPipeline
from rich.console import Console
from rich.progress import track

from zoo.architecture import LATENT_SIDE
from zoo.card import write_figures
from zoo.checker import Aspect, Report, check
from zoo.grid import save_grid
from zoo.latents import pixels
from zoo.scenes import LEVELS, Picture, Scene, draw, held_out
from zoo.tally import Tally, as_table

_BATCH = 32

#: Seed of the prompts that the figures in the documents are measured on.
PROMPT_SEED = 2026


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How pictures are made for an evaluation."""

    #: Denoising steps.
    steps: int
    #: Classifier-free guidance.
    guidance: float
    #: Decides prompts and noise.
    seed: int


def load(folder: Path) -> DiffusionPipeline:
    """Load a stock folder as any user of diffusers would."""
    pipeline = DiffusionPipeline.from_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def scale_of(pipeline: DiffusionPipeline) -> int:
    """Give the side of a model's pictures, in sides of 64 pixels."""
    parts = pipeline.components
    denoiser = parts["transformer"] if "transformer" in parts else parts["unet"]
    scale: int = denoiser.config.sample_size // LATENT_SIDE
    return scale


def in_batches(
    pipeline: DiffusionPipeline,
    count: int,
    settings: Settings,
    inputs: Callable[[range], Mapping[str, object]],
) -> list[Picture]:
    """Make pictures from what `inputs` says of their numbers.

    Each has a seed of its own, so batches do not matter.
    """
    pictures: list[Picture] = []
    for start in range(0, count, _BATCH):
        rows = range(start, min(start + _BATCH, count))
        images = pipeline(
            **inputs(rows),
            num_inference_steps=settings.steps,
            guidance_scale=settings.guidance,
            generator=[torch.Generator().manual_seed(settings.seed + row) for row in rows],
            output_type="np",
        ).images
        pictures.extend((images * 255).round().astype(np.uint8))
    return pictures


def generate(
    pipeline: DiffusionPipeline, prompts: Sequence[str], settings: Settings
) -> list[Picture]:
    """Make one picture a prompt."""
    return in_batches(
        pipeline, len(prompts), settings, lambda rows: {"prompt": [prompts[row] for row in rows]}
    )


@torch.no_grad()
def through_autoencoder(pipeline: DiffusionPipeline, pictures: Sequence[Picture]) -> list[Picture]:
    """Encode and decode pictures: the best that a perfect denoiser could do."""
    vae = pipeline.vae
    decoded = vae.decode(vae.encode(pixels(list(pictures))).latent_dist.mean).sample
    scaled = ((decoded.clamp(-1, 1) + 1) * 127.5).round().byte()
    return list(scaled.permute(0, 2, 3, 1).numpy())


def judge(pictures: Sequence[Picture], scenes: Sequence[Scene]) -> list[Report]:
    """Check pictures against their scenes."""
    return [check(picture, scene) for picture, scene in zip(pictures, scenes, strict=True)]


def evaluate(
    pipeline: DiffusionPipeline, n: int, settings: Settings
) -> tuple[dict[str, list[Tally]], dict[int, list[tuple[str, Picture]]]]:
    """Judge n held-out prompts a level: generated, true and merely autoencoded pictures."""
    rows: dict[str, list[Tally]] = defaultdict(list)
    examples = {}
    for level in track(LEVELS, description="levels", transient=True):
        scenes = held_out(level, n, settings.seed)
        captions = [scene.caption for scene in scenes]
        true = [draw(scene, scale_of(pipeline)) for scene in scenes]
        made = generate(pipeline, captions, settings)
        sources = {
            "generated": made,
            "true": true,
            "autoencoded": through_autoencoder(pipeline, true),
        }
        for name, pictures in sources.items():
            rows[name].append(Tally.of(level, judge(pictures, scenes)))
        examples[level] = list(zip(captions, made, strict=True))
    return dict(rows), examples


def as_markdown(rows: Mapping[str, Sequence[Tally]], n: int, settings: Settings) -> str:
    """Lay out the figures of a card: strict shares, and what the autoencoder would allow."""
    lines = [
        f"{n} held-out prompts a level (seed {settings.seed}), {settings.steps} steps, guidance",
        f"{settings.guidance:g}, by stock diffusers; strict: every part of the picture is right.",
        "",
        "| level | strict | share of right parts | true pictures through the autoencoder |",
        "|---|---|---|---|",
    ]
    for made, best in zip(rows["generated"], rows["autoencoded"], strict=True):
        cells = f"{made.strict:.3f} | {made.share:.3f} | {best.strict:.3f}"
        lines.append(f"| {made.level} | {cells} |")
    return "\n".join([*lines, ""])


def main(
    folder: Annotated[Path, typer.Argument(help="A stock pipeline folder.")],
    n: Annotated[int, typer.Option(help="Prompts per level.")] = 128,
    steps: Annotated[int, typer.Option(help="Denoising steps.")] = 50,
    guidance: Annotated[float, typer.Option(help="Classifier-free guidance.")] = 4.0,
    seed: Annotated[int, typer.Option(help="Seed of prompts and noise.")] = PROMPT_SEED,
    grid: Annotated[Path | None, typer.Option(help="Write a captioned sample grid here.")] = None,
    is_card: Annotated[
        bool, typer.Option("--card", help="Write the figures into the README of the folder.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Measure a model with the exact checker.

    Example: python -m zoo.evaluate zoo/weights/shapes-xl --n 128 --steps 50
    """
    console = Console()
    settings = Settings(steps=steps, guidance=guidance, seed=seed)
    rows, examples = evaluate(load(folder), n, settings)
    if grid:
        save_grid(grid, examples)
    if is_card:
        write_figures(folder, as_markdown(rows, n, settings))
    if as_json:
        tallies = {name: [each.as_fields() for each in row] for name, row in rows.items()}
        console.print_json(json.dumps(tallies))
        return
    for name, tallies_of in rows.items():
        console.print(as_table(name, tallies_of, list(Aspect)))


if __name__ == "__main__":
    typer.run(main)
