"""Train the scorer.

`python -m zoo.scorer.train --help`
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from transformers import CLIPTextModelWithProjection, CLIPTokenizer

from core.log import configure
from zoo.evaluate import load
from zoo.runner import run
from zoo.scorer.architecture import clip
from zoo.scorer.export import export
from zoo.scorer.judged import Judged, addresses, draw_flawed, generate_mixed, judged
from zoo.scorer.training import ScorerRecipe, ScorerTraining, Student
from zoo.training import averaged

GENERATORS = [Path("zoo/weights") / name for name in ("shapes-xl", "shapes-s", "shapes-tiny")]
SCORER = Path("zoo/scorers/shapes")
CACHE = Path(".zoo-cache/scorer")

_FLAWED, _GENERATED = 6000, 720
_SAVE_EVERY = 200


def pools(
    cache: Path, generators: Sequence[Path], seed: int, sizes: tuple[int, int]
) -> tuple[Judged, Judged]:
    """Draw, or read, flawed pictures, and those of each generator; all show training scenes."""
    flawed, generated = sizes
    where = addresses(flawed, seed, 0)
    best = partial(load, generators[0])
    parts = [
        judged(
            cache / f"generated-{folder.name}.safetensors",
            partial(load, folder),
            generate_mixed,
            addresses(generated, seed, flawed + at * generated),
        )
        for at, folder in enumerate(generators)
    ]
    drawn = judged(cache / "flawed.safetensors", best, draw_flawed, where)
    return drawn, Judged.join(parts)


def train(
    recipe: ScorerRecipe,
    generators: Sequence[Path],
    cache: Path,
    out: Path,
    sizes: tuple[int, int],
) -> bool:
    """Train up to the last step, from the checkpoint if there is one, and write the folder.

    The text tower starts as the second text encoder of the first generator, which can read.
    """
    torch.manual_seed(recipe.seed)
    tokenizer = CLIPTokenizer.from_pretrained(generators[0] / "tokenizer")
    student = Student(clip(len(tokenizer)))
    student.clip.text_model.load_state_dict(_reader(generators[0]).text_model.state_dict())
    training = ScorerTraining(
        student, tokenizer, *pools(cache, generators, recipe.seed, sizes), recipe
    )
    checkpoint = cache / "scorer.pt"
    is_done = run(training, "scorer", recipe.steps, checkpoint, _SAVE_EVERY)
    if is_done:
        student.load_state_dict(averaged(checkpoint))
        export(student.clip, tokenizer, out)
    return is_done


def _reader(folder: Path) -> CLIPTextModelWithProjection:
    return CLIPTextModelWithProjection.from_pretrained(
        folder / "text_encoder_2", dtype=torch.float32
    )


def main(
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = ScorerRecipe().steps,
    seed: Annotated[int, typer.Option(help="Decides scenes and weights.")] = 0,
    generator: Annotated[
        list[Path] | None, typer.Option(help="Whose pictures to judge; repeat, the best first.")
    ] = None,
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
    if not train(recipe, generator or GENERATORS, cache, out, sizes):
        Console().print("stopped; the same command goes on from the checkpoint")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
