"""Benchmark late LoRAs: likeness to the image with its LoRA from the start.

Every LoRA of the zoo, with the bound that `profiling/lora_bound` measures on other prompts,
and always as late as that allows; then with the later bound that Katz takes (section 6: a cosine of
0.99); then without it at all (Katz, Table 3). The same noise makes all of them. Scores and Fréchet
distances are by the zoo's scorer.

    python -m bench.lora_quality --prompts 50
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import typer

from bench.parts.image_sets import Judge, similarity
from bench.parts.report import Figure, at_least, at_most, finish, machine, plain
from catalog.models import read_found
from core.job import JobRequest
from core.levels.schedule import SCHEDULE_STEPS, scaled
from profiling.lora_bound import ALIKE, bound_of, likeness
from profiling.lora_bounds import COMPARED, read_lora
from profiling.requests import requests_of
from worker.diffusion.runner import Pixels
from worker.diffusion.scorer import Scorer
from worker.families.diffusion_runner import DiffusionRunner
from worker.families.load import load
from worker.lora.mix import PLAIN, Mix
from zoo.lora.styles import STYLES
from zoo.prompts.measured import captions, mixed
from zoo.prompts.sets import Split

SCORER = Path("zoo/scorers/shapes")
#: Images that step together.
BATCH = 8
#: Cosine of latents under which the paper has them parted.
KATZ = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """What became of the images of one LoRA that came as late as one bound allows, or never."""

    bound: int  #: K of 50
    ssim: float  #: mean over prompts
    moved: float  #: by which share the mean measure of the style is another
    score: float  #: by the scorer, of what is prompted
    frechet: float  #: from the images whose LoRA was there from the start


def images(
    runner: DiffusionRunner, requests: Sequence[JobRequest], mix: Mix, after: int
) -> Iterator[Pixels]:
    """Make images whose LoRAs come after some steps."""
    for together in (requests[at : at + BATCH] for at in range(0, len(requests), BATCH)):
        begun = PLAIN if after else mix
        samples = [runner.begin(request, request.seed, None, begun) for request in together]
        for step in range(samples[0].num_steps):
            if after and step == after:
                for sample, request in zip(samples, together, strict=True):
                    runner.adapt(sample, request, mix)
            runner.advance(samples, runner.forward(samples))
        yield from (runner.decode(sample) for sample in samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What became of the images of one LoRA."""

    score: float  #: of images whose LoRA was there from the start
    late: Mapping[float, Late] = field(default_factory=dict)  #: by bound, as a cosine
    without: Late  #: what it is not to be mistaken for


def measure(
    runner: DiffusionRunner, file: Path, count: int, profiled: int, judge: Judge
) -> Measured:
    """Make images with one LoRA, in time and late by each bound, and without it."""
    mix = Mix.of([(read_lora(file, runner.overlays.adapters.shapes), 1.0)])
    asked = requests_of(runner.model, captions(mixed(Split.VALIDATION, 0, profiled)))
    curves = [likeness(runner, request, mix) for request in asked]
    requests = requests_of(runner.model, captions(mixed(Split.TEST, 0, count)))
    prompts = [request.prompt for request in requests]
    in_time = list(images(runner, requests, mix, 0))
    compared = Compared(style=file.stem, prompts=prompts, in_time=in_time, judge=judge)
    late = {}
    for alike in (ALIKE, KATZ):
        bound = bound_of(curves, alike)
        after = scaled(bound, requests[0].steps)
        late[alike] = compared.to(
            list(images(runner, requests, mix, after)) if after else in_time, bound
        )
    without = compared.to(list(images(runner, requests, PLAIN, 0)), bound=SCHEDULE_STEPS)
    return Measured(score=judge.score(prompts, in_time), late=late, without=without)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Images whose LoRA was there from the start, which others are compared with."""

    style: str
    prompts: Sequence[str]
    in_time: Sequence[Pixels]
    judge: Judge

    def to(self, late: Sequence[Pixels], bound: int) -> Late:
        """Say how far other images are from them."""
        before, after = (
            float(np.mean([STYLES[self.style].measure(image) for image in pictures]))
            for pictures in (self.in_time, late)
        )
        return Late(
            bound=bound,
            ssim=similarity(self.in_time, late),
            moved=abs(after - before) / before if before else float(after > 0),
            score=self.judge.score(self.prompts, late),
            frechet=self.judge.frechet(self.in_time, late),
        )


def figures_of(measured: Mapping[str, Measured]) -> dict[str, Figure]:
    """State each LoRA, and the means that something was promised about."""
    figures: dict[str, Figure] = {}
    for name, found in measured.items():
        figures[f"{name}: score"] = plain(found.score, "100 x cosine")
        for alike, late in found.late.items():
            figures[f"{name}, {alike}: bound"] = plain(late.bound, "of 50 steps")
            figures |= _likeness(f"{name}, {alike}", late)
        figures |= _likeness(f"{name}, without", found.without)
    ours, katz = ([found.late[alike] for found in measured.values()] for alike in (ALIKE, KATZ))
    without = [found.without for found in measured.values()]
    return figures | {
        f"all, {ALIKE}: SSIM": at_least(_mean(x.ssim for x in ours), 0.9, "mean"),
        f"all, {ALIKE}: measure moved by": at_most(_mean(x.moved for x in ours), 0.1, "share"),
        f"all, {ALIKE}: Fréchet distance": plain(_mean(x.frechet for x in ours), "x 100"),
        f"all, {KATZ}: SSIM": plain(_mean(x.ssim for x in katz), "mean"),
        f"all, {KATZ}: measure moved by": plain(_mean(x.moved for x in katz), "share"),
        f"all, {KATZ}: Fréchet distance": plain(_mean(x.frechet for x in katz), "x 100"),
        "all, without: SSIM": plain(_mean(x.ssim for x in without), "mean"),
        "all, without: Fréchet distance": plain(_mean(x.frechet for x in without), "x 100"),
    }


def _likeness(name: str, late: Late) -> dict[str, Figure]:
    return {
        f"{name}: SSIM": plain(late.ssim, "mean"),
        f"{name}: measure moved by": plain(late.moved, "share"),
        f"{name}: score": plain(late.score, "100 x cosine"),
        f"{name}: Fréchet distance": plain(late.frechet, "x 100"),
    }


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def main(
    quick: bool = typer.Option(False, help="Few prompts: to see it work."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
    prompts: int = typer.Option(50, help="Images of each LoRA."),
    base: Path = typer.Option(Path("zoo/weights/shapes-xl"), help="The model of the LoRAs."),
    files: Path = typer.Option(Path("zoo/adapters/loras"), help="A folder of LoRAs."),
) -> None:
    """Compare late LoRAs with LoRAs in time. Example: `python -m bench.lora_quality --quick`."""
    torch.set_num_threads(1)
    runner = load(base, read_found(base).model, device="cpu", dtype="float32")
    assert isinstance(runner, DiffusionRunner)
    judge = Judge(Scorer(SCORER))
    count, profiled = (5, 1) if quick else (prompts, COMPARED)
    measured = {}
    for file in sorted(files.glob("*.safetensors")):
        measured[file.stem] = measure(runner, file, count, profiled, judge)
        typer.echo(f"{file.stem}: {measured[file.stem]}", err=True)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread")
    raise SystemExit(finish("lora_quality", figures_of(measured), where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
