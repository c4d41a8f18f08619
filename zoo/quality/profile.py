"""Measure the shipped models with the exact checker: `python -m zoo.quality.profile --help`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from catalog.models import read_models
from profiling.measure import MeasurementPlace, measure
from profiling.plan import MeasurementPlan
from scheduler.profile.profile_file import joined, read_measured, write_measured
from worker.diffusion.scorer import Scorer
from zoo.prompts.measured import captions_of, measured
from zoo.quality.verdict import judge
from zoo.scorer.train import SCORER


def main(
    output: Annotated[Path, typer.Argument(help="The profile to write.")] = Path(
        "zoo/profile.json"
    ),
    prompts: Annotated[int, typer.Option(help="Measured at every level.")] = 60,
    remembered: Annotated[int, typer.Option(help="Those of each repeat.")] = 120,
    models: Annotated[Path, typer.Option(help="One folder a model.")] = Path("zoo/weights"),
    work: Annotated[Path, typer.Option(help="Goes on from here.")] = Path(".zoo-cache/profile"),
) -> None:
    """Measure as `atelier profile` does, but let the exact checker judge, as its scenes are known.

    Example: python -m zoo.quality.profile --prompts 60 --remembered 120
    """
    torch.set_num_threads(1)
    plan = MeasurementPlan(prompts=prompts, remembered=remembered)
    place = MeasurementPlace(models=models, work=work, device="cpu", dtype="float32")
    by_checker = partial(judge, scenes=measured(plan), scorer=Scorer(SCORER))
    found = measure(read_models(models), plan, captions_of(plan), by_checker, place, Console())
    write_measured(output, joined(read_measured(output), found))


if __name__ == "__main__":
    typer.run(main)
