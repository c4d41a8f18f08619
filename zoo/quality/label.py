"""Label prompts until time is up: `python -m zoo.quality.label --help`."""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from catalog.models import read_models
from core.levels.level import Level, resumed_levels
from core.model import Model
from scheduler.profile.profile_file import read_measured
from scheduler.routing.route import best_model
from zoo.prompts import Split
from zoo.quality import draws
from zoo.quality.draws import Draw
from zoo.quality.labeller import Labeller, open_bench
from zoo.quality.ledger import Ledger


def levels_of(models: Mapping[str, Model], tau: Mapping[str, float]) -> dict[Level, float]:
    """List the levels of both strategies, fastest first: K = 0 of all, every K of the best model.

    Units: seconds of one image.
    """
    best = models[best_model(models, models)]
    levels = [Level(model=name) for name in models]
    known = {level: tau[level.name] for level in [*levels, *resumed_levels(best)]}
    return dict(sorted(known.items(), key=lambda item: item[1]))


def main(
    split: Annotated[Split, typer.Option(help="train: to learn from; test: to measure.")],
    out: Annotated[Path, typer.Option(help="The file of labels; it grows.")],
    minutes: Annotated[float, typer.Option(help="Of CPU time, then stop.")] = 30.0,
    repeats: Annotated[
        int, typer.Option(help="Images of each test prompt at each level; if K > 0, at most 3.")
    ] = 6,
    steps: Annotated[int, typer.Option(help="Of a full schedule.")] = 50,
    remembered: Annotated[int, typer.Option(help="Prompts that others start from.")] = 400,
    dtype: Annotated[
        str, typer.Option(help="bfloat16 takes two thirds of the time on a CPU that has it.")
    ] = "float32",
    models_dir: Annotated[Path, typer.Option(help="One folder a model.")] = Path("zoo/weights"),
    profile: Annotated[Path, typer.Option(help="For seconds.")] = Path("zoo/profile.json"),
    work: Annotated[Path, typer.Option(help="For what levels with K > 0 start from.")] = Path(
        ".zoo-cache/labels"
    ),
) -> None:
    """Make images of prompts at levels, judge them, and write labels.

    It goes on from the labels in the file, and writes it after each draw: stopped, it loses one.
    Example: --split train --out zoo/classifier/images.jsonl.gz
    """
    torch.set_num_threads(1)
    models, measured, console = read_models(models_dir), read_measured(profile), Console()
    levels = levels_of(models, measured.tau[measured.about.device])
    scenes = draws.tested() if split is Split.TEST else draws.taught()
    bench = open_bench(models, models_dir, work, steps=steps, remembered=remembered, dtype=dtype)
    ledger = Ledger(out, list(levels), [scene.caption for scene in scenes], bench.origin(split))
    missing = ledger.missing(_draws(split, levels, len(scenes), repeats))
    labeller = Labeller(bench, scenes)
    with console.status("labelling") as status:
        for draw in _due(missing, minutes * 60):
            ledger.add(draw, labeller.label(draw))
            status.update(f"{draw.level.name}: {len(draw.rows)} images of draw {draw.number}")
    labels = ledger.labels()
    console.print(f"{int(labels.counts.sum())} images of {len(labels.prompts)} prompts: {out}")


def _draws(
    split: Split, levels: Mapping[Level, float], prompts: int, repeats: int
) -> Iterator[Draw]:
    if split is Split.TEST:
        return draws.testing(list(levels), prompts, repeats)
    return draws.teaching(levels, prompts)


def _due(draws: Sequence[Draw], seconds: float) -> Iterator[Draw]:
    """Give draws for as long as there is CPU time."""
    for draw in draws:
        if time.process_time() > seconds:
            return
        yield draw


if __name__ == "__main__":
    typer.run(main)
