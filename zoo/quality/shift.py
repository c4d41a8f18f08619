"""Make and judge images of a shifting prompt mix: `python -m zoo.quality.shift`.

Every prompt at every level of a small fleet, so that a bench may route it anywhere. Each image is
judged twice: by the exact checker, as truth, and by the learned scorer, as the service does.
"""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Annotated

import numpy as np
import torch
import typer
from rich.console import Console

from catalog.models import read_models
from classifier.labels import Labels, Origin, labels_of, write_labels
from classifier.score_curve import read_worth
from core.levels.level import Level
from core.model import Model
from profiling.chunks import digest
from profiling.generate import ImageGenerator
from profiling.plan import MeasurementPlan
from worker.diffusion.scorer import Scorer
from worker.families.load import load
from zoo.prompts import VERSION, Split, prompts_of
from zoo.quality.verdict import judge
from zoo.scenes import Scene
from zoo.scorer.train import SCORER

#: Prompts by difficulty, before and after the shift. Difficulty 1 has but 42 captions.
BEFORE = {1: 40, 2: 160}
AFTER = {4: 390, 5: 390}
BATCH = 50  #: prompts of one file
MODELS = ("shapes-turbo", "shapes-s", "shapes-m")

#: Where the two files are.
OUT = Path("zoo/quality/data")
TRUTH, SCORED = "shift.jsonl.gz", "shift-scored.jsonl.gz"

_NOISE = 70_000_000


def scenes() -> list[Scene]:
    """Compose the prompts: all before the shift, then all after it, each part in random order."""
    return [*_mixed(BEFORE), *_mixed(AFTER)]


def _mixed(counts: dict[int, int]) -> list[Scene]:
    some = (islice(prompts_of(Split.VALIDATION, level), n) for level, n in counts.items())
    found = [prompt.address.scene() for prompts in some for prompt in prompts]
    Random("shift").shuffle(found)
    return found


def make(model: Model, folder: Path, work: Path, told: Console) -> np.ndarray:
    """Make an image of every prompt, unless it was made. Shapes: [P, H, W, 3]."""
    prompts, maker, parts = [scene.caption for scene in scenes()], None, []
    own = work / f"{model.name}-{digest(folder)[:12]}"
    own.mkdir(parents=True, exist_ok=True)
    for first in range(0, len(prompts), BATCH):
        path = own / f"{first}.npy"
        if not path.exists():
            maker = maker or _maker(model, folder)
            some = prompts[first : first + BATCH]
            pictures = maker.make(some, range(_NOISE + first, _NOISE + first + len(some)))
            aside = path.with_suffix(".part.npy")
            np.save(aside, np.stack(pictures))
            aside.replace(path)
            told.print(f"{model.name}: {first + len(some)} of {len(prompts)}")
        parts.append(np.load(path))
    return np.concatenate(parts)


def _maker(model: Model, folder: Path) -> ImageGenerator:
    runner = load(folder, model, device="cpu", dtype="float32")
    return ImageGenerator(runner, MeasurementPlan().steps_of(model), lambda taken: None)


def labels(models: Sequence[Model], models_dir: Path, work: Path, scorer: Path) -> list[Labels]:
    """Judge every image: by the checker, and by the scorer."""
    told, reader, worth = Console(), Scorer(scorer), read_worth(scorer)
    composed = scenes()
    truth: list[dict[str, list[float]]] = [{} for _ in composed]
    scored: list[dict[str, list[float]]] = [{} for _ in composed]
    for model in models:
        name = Level(model=model.name).name
        found = judge(list(make(model, models_dir / model.name, work, told)), composed, reader)
        assert found.learned is not None
        rows = zip(truth, scored, found.quality, found.learned, strict=True)
        for right, seen, quality, value in rows:
            right[name] = [float(quality)]
            seen[name] = [worth.estimate(float(value), name).quality]
    names = [Level(model=model.name).name for model in models]
    digests = {model.name: digest(models_dir / model.name) for model in models}
    return [
        labels_of(
            names,
            [(scene.caption, row) for scene, row in zip(composed, rows, strict=True)],
            Origin(
                digests=digests, prompts=f"{VERSION} shift", steps=MeasurementPlan().steps, judge=by
            ),
        )
        for rows, by in ((truth, "checker"), (scored, "scorer"))
    ]


def main(
    out: Annotated[Path, typer.Option(help="A folder; truth and scores are a file each.")] = OUT,
    models_dir: Annotated[Path, typer.Option(help="One folder a model.")] = Path("zoo/weights"),
    scorer: Annotated[Path, typer.Option(help="A folder with a CLIPModel.")] = SCORER,
    work: Annotated[Path, typer.Option(help="Goes on from here.")] = Path(".zoo-cache/shift"),
) -> None:
    """Make every image and judge it twice. Stopped and started again, it goes on where it was."""
    torch.set_num_threads(1)
    every = read_models(models_dir)
    truth, scored = labels([every[name] for name in MODELS], models_dir, work, scorer)
    write_labels(out / TRUTH, truth)
    write_labels(out / SCORED, scored)


if __name__ == "__main__":
    typer.run(main)
