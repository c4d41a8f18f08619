"""Distil teachers into classifier labels: `python -m zoo.quality.distil --help`."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from rich.console import Console

from classifier.labels import Labels, labels_of, read_labels, write_labels
from zoo.quality import draws
from zoo.quality.teacher import Images, TeacherRecipe, expected, taught
from zoo.quality.verdict import apart
from zoo.scenes import Scene

FOLDER = Path("zoo/classifier")
PROMPTS = 10_000  #: to learn from; whoever retrains must read them again each time
#: What teachers expect tells as much of a prompt at a level as so many images of it.
WEIGHT = 8.0


def main(
    images: Annotated[Path, typer.Option(help="Judged images.")] = FOLDER / "images.jsonl.gz",
    out: Annotated[Path, typer.Option(help="What to learn.")] = FOLDER / "train.jsonl.gz",
    teachers: Annotated[int, typer.Option(min=1, help="Whose expectations are averaged.")] = 3,
) -> None:
    """Train teachers on judged images, and write what they expect of prompts at every level.

    Example: python -m zoo.quality.distil && atelier train-classifier --output zoo/classifier
    """
    torch.set_num_threads(1)
    labels, console = read_labels(images), Console()
    with console.status(f"{teachers} teachers, some minutes each"):
        recipes = [TeacherRecipe(seed=seed) for seed in range(teachers)]
        found = distilled(labels, draws.taught(), recipes)
    write_labels(out, found)
    console.print(f"{len(found.prompts)} prompts, by {int(labels.counts.sum())} images: {out}")


def distilled(labels: Labels, scenes: Sequence[Scene], recipes: Sequence[TeacherRecipe]) -> Labels:
    """Train a teacher by each recipe, and put what they expect of prompts into a table.

    `scenes`: of all labelled prompts, and perhaps of more; the first `PROMPTS` are put down
    """
    scene_of = {scene.caption: scene for scene in scenes}  # those of one caption ask for the same
    learned, levels = images_of(labels, list(scene_of)), labels.levels
    teachers = [taught(list(scene_of.values()), learned, len(levels), each) for each in recipes]
    some = dict(islice(scene_of.items(), PROMPTS))
    qualities = expected(teachers, list(some.values()))
    rows = [
        (caption, {level: [float(each)] for level, each in zip(levels, row, strict=True)})
        for caption, row in zip(some, qualities, strict=True)
    ]
    return labels_of(levels, rows, labels.origin, WEIGHT)


def images_of(labels: Labels, captions: Sequence[str]) -> Images:
    """List judged images one by one; rows are those of the captions."""
    row_of = {caption: row for row, caption in enumerate(captions)}
    place, level, repeat = np.nonzero(~np.isnan(labels.quality))
    rows = np.array([row_of[prompt] for prompt in labels.prompts])[place]
    quality = labels.quality[place, level, repeat].astype(np.float64)
    return Images(
        rows=torch.from_numpy(rows),
        levels=torch.from_numpy(level),
        verdicts=torch.from_numpy(np.stack(apart(quality), axis=1).astype(np.float32)),
    )


if __name__ == "__main__":
    typer.run(main)
