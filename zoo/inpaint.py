"""Evaluate stock inpainting: mask region changed, the rest kept.

`python -m zoo.inpaint --base zoo/weights/shapes-xl`
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from diffusers import StableDiffusionXLInpaintPipeline
from PIL import Image
from rich.console import Console

from zoo.evaluate import PROMPT_SEED, Settings, in_batches
from zoo.replaced import Task, has_new_figure, tasks
from zoo.scenes import Picture, draw
from zoo.scenes.words import SIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What inpainting did to the pictures."""

    #: Mean absolute change under the mask, of 255.
    inside: float
    #: Likewise everywhere else.
    outside: float
    #: Share of pictures that show a figure of the prompted colour under the mask.
    in_colour: float


def load(base: Path) -> StableDiffusionXLInpaintPipeline:
    """Load a stock folder as any user of diffusers would."""
    pipeline = StableDiffusionXLInpaintPipeline.from_pretrained(base, add_watermarker=False)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def inpaint(
    pipeline: StableDiffusionXLInpaintPipeline, chosen: Sequence[Task], settings: Settings
) -> list[Picture]:
    """Replace the figure of each task; each has a seed of its own."""

    def inputs(rows: range) -> dict[str, object]:
        batch = [chosen[row] for row in rows]
        return {
            "prompt": [task.prompt for task in batch],
            "image": [Image.fromarray(draw(task.scene)) for task in batch],
            "mask_image": [Image.fromarray(task.mask) for task in batch],
            "height": SIDE,
            "width": SIDE,
            "strength": 1.0,
        }

    return in_batches(pipeline, len(chosen), settings, inputs)


def judge(pictures: Sequence[Picture], chosen: Sequence[Task]) -> Figures:
    """Compare pictures with what was there before, and with what was asked for."""
    pairs = list(zip(pictures, chosen, strict=True))
    changes = [np.abs(picture.astype(float) - draw(task.scene)) for picture, task in pairs]
    masks = [task.mask for task in chosen]
    moved = list(zip(changes, masks, strict=True))
    return Figures(
        inside=float(np.mean([change[mask].mean() for change, mask in moved])),
        outside=float(np.mean([change[~mask].mean() for change, mask in moved])),
        in_colour=float(np.mean([has_new_figure(*pair) for pair in pairs])),
    )


def main(
    base: Annotated[Path, typer.Option(help="A stock folder.")],
    n: Annotated[int, typer.Option(help="Scenes.")] = 64,
    steps: Annotated[int, typer.Option(help="Denoising steps.")] = 20,
    guidance: Annotated[float, typer.Option(help="Classifier-free guidance.")] = 4.0,
    seed: Annotated[int, typer.Option(help="Seed of scenes and noise.")] = PROMPT_SEED,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
) -> None:
    """Replace a figure of each scene and print the figures as JSON.

    Example: python -m zoo.inpaint --base zoo/weights/shapes-xl
    """
    torch.set_num_threads(threads)
    chosen = tasks(n, seed)
    pictures = inpaint(load(base), chosen, Settings(steps=steps, guidance=guidance, seed=seed))
    Console().print_json(json.dumps(asdict(judge(pictures, chosen))))


app = typer.Typer(add_completion=False)
app.command()(main)

if __name__ == "__main__":
    app()
