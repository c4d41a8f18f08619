"""What is a score of this scorer worth? `python -m zoo.scorer.worth`: a curve through a profile.

The images of the profile are judged by both, the exact checker and the scorer; the curve is the
mean quality of images of alike scores, made to grow with them.
"""

from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import torch
import typer
from numpy.typing import NDArray

from scheduler.measured import read_measured
from storage.models import read_models
from worker.scorer import Scorer
from worker.worth import FILE, Worth
from zoo.quality.chunks import Chunks, digest
from zoo.quality.plan import Plan, levels_of
from zoo.quality.score import judge
from zoo.scorer.train import SCORER

BINS = 20  #: of equally many images

Column = NDArray[np.float64]


def fitted(scores: Column, qualities: Column, bins: int = BINS) -> tuple[Worth, float]:
    """Fit the curve; also say which share of the variance of single images it explains.

    Shapes: [N], [N]
    """
    order = np.argsort(scores, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    while fall := _first_fall([float(qualities[part].mean()) for part in parts]):
        parts[fall - 1 : fall + 1] = [np.concatenate(parts[fall - 1 : fall + 1])]
    worth = Worth(
        scores=tuple(round(float(scores[part].mean()), 3) for part in parts),
        qualities=tuple(round(float(qualities[part].mean()), 4) for part in parts),
    )
    off = qualities - np.array([worth.quality(each) for each in scores])
    whole = float(qualities.var())
    return worth, 1 - float(off.var()) / whole if whole > 0 else 1.0


def _first_fall(means: list[float]) -> int | None:
    """Find the first bin that is worth less than the one before: both are then one bin."""
    return next((i for i in range(1, len(means)) if means[i] < means[i - 1]), None)


def judged(plan: Plan, models_dir: Path, work: Path, scorer: Scorer) -> tuple[Column, Column]:
    """Judge every image of a profile by both."""
    scores, qualities, scenes = [], [], plan.tested()
    for model in read_models(models_dir).values():
        chunks = Chunks(work, plan, model, f"{digest(models_dir / model.name)} float32")
        for level in levels_of(model):
            for repeat in range(plan.repeats):
                found = judge(list(chunks.read(level, repeat)), scenes, scorer)
                assert found.learned is not None
                scores.append(found.learned)
                qualities.append(found.quality)
    return np.concatenate(scores), np.concatenate(qualities)


def main(
    folder: Annotated[Path, typer.Argument(help="The scorer's.")] = SCORER,
    profile: Annotated[Path, typer.Option(help="Whose images it is.")] = Path("zoo/profile.json"),
    models_dir: Annotated[Path, typer.Option(help="One folder a model.")] = Path("zoo/weights"),
    work: Annotated[Path, typer.Option(help="Where its images are.")] = Path(".zoo-cache/profile"),
) -> None:
    """Fit the curve and write it beside the scorer. Example: python -m zoo.scorer.worth"""
    torch.set_num_threads(1)
    about = read_measured(profile).about
    plan = Plan(
        prompts=about.prompts,
        remembered=about.remembered,
        repeats=about.repeats,
        steps=about.steps,
    )
    scores, qualities = judged(plan, models_dir, work, Scorer(folder))
    worth, explained = fitted(scores, qualities)
    (folder / FILE).write_bytes(msgspec.json.encode(worth) + b"\n")
    typer.echo(f"{len(scores)} images, R2 {explained:.3f}: {folder / FILE}")


if __name__ == "__main__":
    typer.run(main)
