"""Compare the time of an image of each model of the zoo with that of the next better one.

The models take turns in one process; every figure is a median of ratios of CPU time in one round.
An image is what it takes beside its steps, and as many guided steps as its model takes.

    python -m bench.family --quick
"""

import time
from itertools import pairwise
from pathlib import Path

import torch
import typer

from bench.parts.report import Figure, at_least, finish, machine, median, plain
from catalog.models import read_models
from profiling.times import step_times
from worker.diffusion.runner import AnyRunner
from worker.families.load import load
from worker.trials.timing import fixed_s

WEIGHTS = Path("zoo/weights")

#: From the best to the fastest.
MODELS = ("shapes-xl", "shapes-m", "shapes-s", "shapes-tiny")

#: By model: of a guided step by images in flight, and at 0 of an image.
Seconds = dict[str, dict[int, float]]
IMAGE = 0
TRIES = 3


def one_round(runners: dict[str, AnyRunner]) -> Seconds:
    """Time guided steps and an image of every model."""
    found = {}
    for name, runner in runners.items():
        steps = {each.images: each.seconds for each in step_times(runner, "cpu") if each.is_guided}
        beside = fixed_s(runner, time.thread_time, tries=TRIES)
        found[name] = steps | {IMAGE: beside + runner.model.default_steps * steps[1]}
    return found


def ratios(rounds: list[Seconds]) -> dict[str, Figure]:
    """Compare neighbours, alone and eight at a time."""
    figures = {}
    unit = "ratio, CPU time"
    for better, faster in pairwise(MODELS):
        ratio = median([each[better][IMAGE] / each[faster][IMAGE] for each in rounds])
        figures[f"image, {better} / {faster}"] = at_least(ratio, 1.5, unit)
        for images in (1, 8):
            ratio = median([each[better][images] / each[faster][images] for each in rounds])
            figures[f"step of {images}, {better} / {faster}"] = plain(ratio, unit)
    for name in MODELS:
        alone = median([each[name][1] for each in rounds])
        whole = median([each[name][IMAGE] for each in rounds])
        figures[f"image, {name}"] = plain(1e3 * whole, "ms, CPU time")
        figures[f"step of 1, {name}"] = plain(1e3 * alone, "ms, CPU time")
    return figures


def main(
    quick: bool = typer.Option(False, help="Fewer rounds, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Compare the models' steps. Example: `python -m bench.family --quick`."""
    torch.set_num_threads(1)
    models = read_models(WEIGHTS)
    runners = {
        name: load(WEIGHTS / name, models[name], device="cpu", dtype="float32") for name in MODELS
    }
    rounds = [one_round(runners) for _ in range(2 if quick else 5)]
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread")
    raise SystemExit(finish("family", ratios(rounds), where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
