"""Does stock inpainting change what the mask covers, and keep the rest?

`python -m zoo.inpaint --base zoo/weights/shapes-xl`
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Annotated

import numpy as np
import torch
import typer
from diffusers import StableDiffusionXLInpaintPipeline
from PIL import Image
from rich.console import Console

from zoo.detector import Mask, detect
from zoo.evaluate import PROMPT_SEED, Settings, in_batches
from zoo.scenes import Noun, Picture, Scene, draw, held_out
from zoo.scenes.words import CLASHES, FIGURE_COLOURS, SIDE, Colour, Shape, with_article

#: Scenes of one figure, of any size, at any place.
_LEVEL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A figure to be replaced."""

    #: What is there before.
    scene: Scene
    #: What shall be there.
    noun: Noun
    #: Room that the mask leaves around the figure, pixels.
    margin: float = 4.0

    @property
    def prompt(self) -> str:
        """Ask for the new figure on the background that is there."""
        background = self.scene.background
        where = f" on {with_article(background)} background" if background else ""
        return self.noun.phrase() + where

    @property
    def mask(self) -> Mask:
        """Cover a square around the old figure.

        Shapes: [64, 64].
        """
        figure = self.scene.figures[0]
        rows, columns = np.mgrid[0:SIDE, 0:SIDE] + 0.5
        off = np.maximum(np.abs(columns - figure.x), np.abs(rows - figure.y))
        return np.asarray(off <= figure.radius + self.margin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What inpainting did to the pictures."""

    #: Mean absolute change under the mask, of 255.
    inside: float
    #: Likewise everywhere else.
    outside: float
    #: Share of pictures that show a figure of the prompted colour under the mask.
    in_colour: float


def _stands_out(colour: Colour, scene: Scene) -> bool:
    """Tell whether a colour is new to a scene and easy to see in it."""
    taken = (scene.figures[0].noun.colour, scene.background, Colour.WHITE)
    return colour not in taken and frozenset({colour, scene.background}) not in CLASHES


def tasks(n: int, seed: int) -> list[Task]:
    """Choose n held-out scenes and, for each, a figure of another colour and shape."""
    rng = Random(f"inpaint/{seed}")
    chosen = []
    for scene in held_out(_LEVEL, n, seed):
        old = scene.figures[0].noun
        shape = rng.choice([each for each in Shape if each is not old.shape])
        colour = rng.choice([each for each in FIGURE_COLOURS if _stands_out(each, scene)])
        chosen.append(Task(scene=scene, noun=Noun(shape=shape, colour=colour, size=old.size)))
    return chosen


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


def has_new_figure(picture: Picture, task: Task) -> bool:
    """Tell whether a picture shows a figure of the prompted colour under the mask."""
    mask, seen = task.mask, detect(picture).figures
    under = [figure for figure in seen if mask[int(figure.y), int(figure.x)]]
    return any(figure.colour is task.noun.colour for figure in under)


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
