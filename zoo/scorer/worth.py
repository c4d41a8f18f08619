"""Fit the score-to-quality curve of a scorer from a profile: `python -m zoo.scorer.worth`.

The images of the profile are judged by both, the exact checker and the scorer; the curve is the
mean quality of images of alike scores, made to grow with them. How far it shrinks differences is
fitted the other way round: what it says of images of alike quality, at each level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated

import msgspec
import numpy as np
import torch
import typer
from numpy.typing import NDArray

from catalog.models import read_models
from classifier.score_curve import FILE, Shrinkage, Worth
from core.errors import ConfigurationError
from core.levels.level import levels_of
from profiling.chunks import Chunks, digest
from profiling.plan import MeasurementPlan
from scheduler.profile.profile_file import read_measured
from worker.diffusion.scorer import Scorer
from zoo.prompts.measured import captions_of, measured
from zoo.quality.verdict import judge
from zoo.scorer.train import SCORER

BINS = 20  #: of equally many images
MIN_SLOPE = 0.1  #: below it nothing can be told from what the curve says at a level

Column = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """Images that both have judged. Shapes: [N] each."""

    scores: Column
    qualities: Column
    levels: NDArray[np.str_]


def fitted(judged: Judged, bins: int = BINS) -> tuple[Worth, float]:
    """Fit the curve; also say which share of the variance of single images it explains.

    Raises:
        ConfigurationError: at no level does the scorer see what the checker sees.
    """
    scores, qualities = curve(judged.scores, judged.qualities, bins)
    said = np.interp(judged.scores, scores, qualities)
    lines = {}
    for level in map(str, dict.fromkeys(judged.levels)):
        some = judged.levels == level
        line = shrinkage(said[some], judged.qualities[some])
        if line is not None:
            lines[level] = line
    if not lines:
        raise ConfigurationError("the scorer does not see what the checker sees: train another")
    worth = Worth(
        scores=tuple(round(float(each), 3) for each in scores),
        qualities=tuple(round(float(each), 4) for each in qualities),
        levels=lines,
        other=_mean(list(lines.values())),
    )
    off = float((judged.qualities - said).var())
    return worth, 1 - off / float(judged.qualities.var())


def curve(scores: Column, qualities: Column, bins: int = BINS) -> tuple[Column, Column]:
    """Average the qualities of images of alike scores; bins that fall are put together.

    Shapes: [N], [N] -> [B], [B]
    """
    order = np.argsort(scores, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    while fall := _first_fall([float(qualities[part].mean()) for part in parts]):
        parts[fall - 1 : fall + 1] = [np.concatenate(parts[fall - 1 : fall + 1])]
    means = [(scores[part].mean(), qualities[part].mean()) for part in parts]
    return np.array([score for score, _ in means]), np.array([quality for _, quality in means])


def shrinkage(said: Column, qualities: Column) -> Shrinkage | None:
    """Fit a line to what the curve says of images of known quality; None if it tells nothing.

    Shapes: [N], [N]
    """
    if np.ptp(qualities) == 0:
        return None
    slope, offset = map(float, np.polyfit(qualities, said, 1))
    variance = float((said - offset - slope * qualities).var())
    if slope < MIN_SLOPE:
        return None
    return _rounded(offset, slope, variance)


def _mean(lines: Sequence[Shrinkage]) -> Shrinkage:
    """Average over levels: what one may expect of another."""
    return _rounded(
        fmean(line.offset for line in lines),
        fmean(line.slope for line in lines),
        fmean(line.variance for line in lines),
    )


def _rounded(offset: float, slope: float, variance: float) -> Shrinkage:
    return Shrinkage(offset=round(offset, 4), slope=round(slope, 4), variance=round(variance, 5))


def _first_fall(means: list[float]) -> int | None:
    """Find the first bin that is worth less than the one before: both are then one bin."""
    return next((i for i in range(1, len(means)) if means[i] < means[i - 1]), None)


def judged_by_both(plan: MeasurementPlan, models_dir: Path, work: Path, scorer: Scorer) -> Judged:
    """Judge every image of a profile by both."""
    scores, qualities, names, scenes = [], [], [], measured(plan)
    prompts = captions_of(plan)
    for model in read_models(models_dir).values():
        weights = digest(models_dir / model.name)
        chunks = Chunks(work, plan, prompts, model, f"{weights} float32")
        for level in levels_of(model):
            for repeat in range(plan.repeats):
                found = judge(list(chunks.read(level, repeat)), scenes, scorer)
                assert found.learned is not None
                scores.append(found.learned)
                qualities.append(found.quality)
                names += [level.name] * len(scenes)
    return Judged(
        scores=np.concatenate(scores),
        qualities=np.concatenate(qualities),
        levels=np.array(names),
    )


def main(
    folder: Annotated[Path, typer.Argument(help="The scorer's.")] = SCORER,
    profile: Annotated[Path, typer.Option(help="Whose images it is.")] = Path("zoo/profile.json"),
    models_dir: Annotated[Path, typer.Option(help="One folder a model.")] = Path("zoo/weights"),
    work: Annotated[Path, typer.Option(help="Where its images are.")] = Path(".zoo-cache/profile"),
) -> None:
    """Fit the curve and write it beside the scorer. Example: python -m zoo.scorer.worth"""
    torch.set_num_threads(1)
    about = read_measured(profile).about
    plan = MeasurementPlan(
        prompts=about.prompts,
        remembered=about.remembered,
        repeats=about.repeats,
        steps=about.steps,
    )
    judged = judged_by_both(plan, models_dir, work, Scorer(folder))
    worth, explained = fitted(judged)
    (folder / FILE).write_bytes(msgspec.json.encode(worth) + b"\n")
    typer.echo(f"{len(judged.scores)} images, R2 {explained:.3f}: {folder / FILE}")


if __name__ == "__main__":
    typer.run(main)
