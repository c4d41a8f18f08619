"""Benchmark masked edits: likeness to the same edit computed in full.

Figures of the zoo are replaced under masks of a tenth of the picture, most of them small and a few
large, as in InstGenIE's traces (Fig. 3, left: mean 0.11); the same noise makes both.

    python -m bench.edit_quality --edits 20
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from skimage.metrics import structural_similarity

from bench.parts.report import Figure, at_least, finish, machine, plain
from catalog.masking.config import Keep, MaskingConfig
from catalog.models import read_models
from core.job import Edit, JobRequest, Quality
from core.job import Task as Kind
from core.model import Model
from worker.diffusion.runner import EditInputs, Pixels
from worker.families.diffusion_runner import DiffusionRunner
from worker.families.load import load
from worker.masking.activations import Activations
from zoo.replaced import Task, has_new_figure, tasks
from zoo.scenes import draw
from zoo.scenes.words import SIDE, Size

WEIGHTS = Path("zoo/weights")
#: Edits that step together.
BATCH = 8
DEFAULT = MaskingConfig()
SEED = 2026
#: Share of a picture under a mask: the least that covers a figure, and how much more in the mean.
LEAST, MORE = 0.072, 0.038


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One edit of one picture."""

    task: Task
    request: JobRequest
    inputs: EditInputs

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Say which pixels are made anew."""
        return self.inputs.mask > 0


def cases(n: int, steps: int, model: Model, *, says_place: bool = False) -> Iterator[Case]:
    """Choose pictures of one small figure, and masks that leave it room: mostly little."""
    scale = model.default_size // SIDE
    rng = Random("edit quality")
    small = [task for task in tasks(8 * n, SEED) if task.scene.figures[0].noun.size is Size.SMALL]
    for number, task in enumerate(small[:n]):
        picture = draw(task.scene, scale)
        side = SIDE * math.sqrt(LEAST + rng.expovariate(1 / MORE))
        margin = side / 2 - task.scene.figures[0].radius
        task = replace(task, margin=margin, says_place=says_place)
        request = JobRequest(
            task=Kind.EDIT,
            prompt=task.prompt,
            model=model.name,
            width=model.default_size,
            height=model.default_size,
            steps=steps,
            guidance=4.0,
            seed=number,
            edit=Edit(
                template="t",
                template_sha256=hashlib.sha256(picture.tobytes()).hexdigest(),
                mask="m",
            ),
        )
        mask = task.mask_at(scale).astype(np.uint8) * 255
        yield Case(
            task=task,
            request=request,
            inputs=EditInputs(template=picture, mask=mask, strength=1.0),
        )


def make(runner: DiffusionRunner, chosen: Sequence[Case], quality: Quality) -> list[Pixels]:
    """Make some edits, a few at a time."""
    pictures: list[Pixels] = []
    for start in range(0, len(chosen), BATCH):
        samples = [
            runner.open(replace(case.request, quality=quality), case.request.seed, case.inputs)
            for case in chosen[start : start + BATCH]
        ]
        for _ in range(samples[0].num_steps):
            runner.advance(samples, runner.forward(samples))
        pictures += [runner.decode(sample) for sample in samples]
    return pictures


def record(runner: DiffusionRunner, chosen: Sequence[Case]) -> None:
    """Edit every template once before, with another prompt and another mask."""
    corner = np.zeros_like(chosen[0].inputs.mask)
    eighth = len(corner) // 8
    corner[:eighth, :eighth] = 255
    others = [
        replace(
            case,
            request=replace(case.request, prompt="a red circle"),
            inputs=replace(case.inputs, mask=corner),
        )
        for case in chosen
    ]
    make(runner, others, Quality.AUTO)


def compare(
    chosen: Sequence[Case], full: Sequence[Pixels], reused: Sequence[Pixels]
) -> dict[str, Figure]:
    """Measure likeness, and how often either shows what was asked for."""
    whole, inside = [], []
    for case, one, other in zip(chosen, full, reused, strict=True):
        mean, similar = structural_similarity(one, other, channel_axis=2, full=True)
        whole.append(float(mean))
        inside.append(float(similar[case.mask].mean()))
    right = [
        float(
            np.mean(
                [has_new_figure(each, case.task) for each, case in zip(made, chosen, strict=True)]
            )
        )
        for made in (full, reused)
    ]
    return {
        "mask ratio, mean": plain(float(np.mean([case.mask.mean() for case in chosen])), "share"),
        "SSIM, whole image": at_least(float(np.mean(whole)), 0.98, "mean"),
        "SSIM under the mask": at_least(float(np.mean(inside)), 0.93, "mean"),
        "in the prompted colour, in full": plain(right[0], "share"),
        "in the prompted colour, reusing": at_least(right[1], right[0] - 0.02, "share"),
    }


def main(
    quick: bool = typer.Option(False, help="Fewer edits and steps, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
    model: str = typer.Option("shapes-xl", help="Model of the zoo."),
    weights: Path = typer.Option(WEIGHTS, help="Folder of models."),
    edits: int = typer.Option(100, help="Edits."),
    steps: int = typer.Option(50, help="Steps of each."),
    place: bool = typer.Option(False, help="Prompts say where the figure is, if it is anywhere."),
    dtype: str = typer.Option("float32", help="Of the weights, as in ATELIER_DTYPE."),
    dilate: int = typer.Option(DEFAULT.dilate, help="Tokens around the mask, computed too."),
    full_share: float = typer.Option(DEFAULT.full_share, help="Of the steps, run in full."),
    crop: bool = typer.Option(DEFAULT.crop, help="Convolutions in a box around the mask alone."),
    keeps: Keep = typer.Option(DEFAULT.keeps, help="What is kept of a transformer's blocks."),
) -> None:
    """Measure edits with reuse. Example: `python -m bench.edit_quality --dilate 1`."""
    torch.set_num_threads(1)
    known = read_models(weights)[model]
    runner = load(weights / model, known, device="cpu", dtype=dtype)
    assert isinstance(runner, DiffusionRunner)
    knobs = MaskingConfig(dilate=dilate, full_share=full_share, crop=crop, keeps=keeps)
    runner.overlays.reuse(Activations(4 * 2**30), knobs)
    edits, steps = (min(edits, 16), min(steps, 20)) if quick else (edits, steps)
    chosen = list(cases(edits, steps, known, says_place=place))
    record(runner, chosen)
    figures = compare(
        chosen, make(runner, chosen, Quality.EXACT), make(runner, chosen, Quality.AUTO)
    )
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread", model, dtype)
    raise SystemExit(finish("edit_quality", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
