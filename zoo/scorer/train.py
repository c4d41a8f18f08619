"""How is the scorer trained?

`python -m zoo.scorer.train --help`
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from transformers import CLIPTokenizer

from core.log import configure
from zoo.evaluate import load
from zoo.runner import run
from zoo.scorer.architecture import clip
from zoo.scorer.export import export
from zoo.scorer.judged import Judged, addresses, draw_flawed, generate_mixed, judged
from zoo.scorer.training import ScorerRecipe, ScorerTraining, Student
from zoo.training import averaged

GENERATOR = Path("zoo/weights/shapes-xl")
SCORER = Path("zoo/scorers/shapes")
CACHE = Path(".zoo-cache/scorer")

_FLAWED, _GENERATED = 6000, 324
_SAVE_EVERY = 200


def pools(cache: Path, generator: Path, seed: int, sizes: tuple[int, int]) -> tuple[Judged, Judged]:
    """Draw, or read, the flawed and the generated pictures; both show training scenes."""
    pipeline = partial(load, generator)
    flawed, generated = sizes
    return (
        judged(cache / "flawed.safetensors", pipeline, draw_flawed, addresses(flawed, seed, 0)),
        judged(
            cache / f"generated-{generator.name}.safetensors",
            pipeline,
            generate_mixed,
            addresses(generated, seed, flawed),
        ),
    )


def train(
    recipe: ScorerRecipe, generator: Path, cache: Path, out: Path, sizes: tuple[int, int]
) -> bool:
    """Train up to the last step, from the checkpoint if there is one, and write the folder."""
    torch.manual_seed(recipe.seed)
    tokenizer = CLIPTokenizer.from_pretrained(generator / "tokenizer")
    student = Student(clip(len(tokenizer)))
    training = ScorerTraining(
        student, tokenizer, *pools(cache, generator, recipe.seed, sizes), recipe
    )
    checkpoint = cache / "scorer.pt"
    is_done = run(training, "scorer", recipe.steps, checkpoint, _SAVE_EVERY)
    if is_done:
        student.load_state_dict(averaged(checkpoint))
        export(student.clip, tokenizer, out)
    return is_done


def main(
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = ScorerRecipe().steps,
    seed: Annotated[int, typer.Option(help="Decides scenes and weights.")] = 0,
    generator: Annotated[Path, typer.Option(help="Whose pictures to judge.")] = GENERATOR,
    cache: Annotated[Path, typer.Option(help="Workspace: pictures and checkpoint.")] = CACHE,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = SCORER,
    is_smoke: Annotated[bool, typer.Option("--smoke", help="A useless one in seconds.")] = False,
) -> None:
    """Train the scorer; SIGTERM writes a checkpoint, and the same command goes on from it.

    Example: python -m zoo.scorer.train
    """
    configure("info", is_json=False)
    torch.set_num_threads(1)
    recipe = ScorerRecipe(seed=seed, steps=steps)
    sizes = (_FLAWED, _GENERATED)
    if is_smoke:
        recipe = replace(recipe, steps=3, decay_steps=1, warmup_steps=1, batch=4)
        sizes = (20, 12)
    if not train(recipe, generator, cache, out, sizes):
        Console().print("stopped; the same command goes on from the checkpoint")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
