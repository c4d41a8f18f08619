"""Benchmark late LoRAs: likeness to the image with its LoRA from the start.

Every LoRA of the zoo, with the bound that `profiling/lora_bound` measures on other prompts,
and always as late as that allows; then with the later bound that Katz takes (section 6: a cosine of
0.99). The same noise makes all of them.

    python -m bench.lora_quality --prompts 50
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import typer
from skimage.metrics import structural_similarity

from bench.parts.report import Figure, at_least, at_most, finish, machine, plain
from catalog.models import FILE, read_model
from core.job import JobRequest
from core.levels.schedule import scaled
from profiling.lora_bound import ALIKE, bound_of, likeness
from profiling.lora_bounds import COMPARED, read_lora
from profiling.requests import requests_of
from worker.diffusion.runner import Pixels
from worker.families.diffusion_runner import DiffusionRunner
from worker.families.load import load
from worker.lora.mix import PLAIN, Mix
from zoo.lora.styles import STYLES
from zoo.prompts.measured import captions, mixed
from zoo.prompts.sets import Split

#: Images that step together.
BATCH = 8
#: Cosine of latents under which the paper has them parted.
KATZ = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """What became of the images of one LoRA that came as late as one bound allows."""

    bound: int  #: K of 50
    ssim: float  #: mean over prompts
    moved: float  #: by which share the mean measure of the style is another


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


def measure(runner: DiffusionRunner, file: Path, count: int, profiled: int) -> dict[float, Late]:
    """Make images with one LoRA, in time and late by each bound."""
    mix = Mix.of([(read_lora(file, runner.overlays.adapters.shapes), 1.0)])
    asked = requests_of(runner.model, captions(mixed(Split.VALIDATION, 0, profiled)))
    curves = [likeness(runner, request, mix) for request in asked]
    requests = requests_of(runner.model, captions(mixed(Split.TEST, 0, count)))
    in_time = list(images(runner, requests, mix, 0))
    found: dict[float, Late] = {}
    for alike in (ALIKE, KATZ):
        bound = bound_of(curves, alike)
        after = scaled(bound, requests[0].steps)
        late = list(images(runner, requests, mix, after)) if after else in_time
        found[alike] = compare(file.stem, bound, in_time, late)
    return found


def compare(style: str, bound: int, in_time: list[Pixels], late: list[Pixels]) -> Late:
    """Say how far images are from those whose LoRA was there from the start."""
    alike = [
        structural_similarity(one, other, channel_axis=2, data_range=255)
        for one, other in zip(in_time, late, strict=True)
    ]
    before, after = (
        float(np.mean([STYLES[style].measure(image) for image in pictures]))
        for pictures in (in_time, late)
    )
    moved = abs(after - before) / before if before else float(after > 0)
    return Late(bound=bound, ssim=float(np.mean(alike)), moved=moved)


def figures_of(measured: Mapping[str, Mapping[float, Late]]) -> dict[str, Figure]:
    """State each LoRA, and the means that something was promised about."""
    figures: dict[str, Figure] = {}
    for name, found in measured.items():
        for alike, late in found.items():
            figures[f"{name}, {alike}: bound"] = plain(late.bound, "of 50 steps")
            figures[f"{name}, {alike}: SSIM"] = plain(late.ssim, "mean")
            figures[f"{name}, {alike}: measure moved by"] = plain(late.moved, "share")
    ours, katz = ([found[alike] for found in measured.values()] for alike in (ALIKE, KATZ))
    return figures | {
        f"all, {ALIKE}: SSIM": at_least(_ssim(ours), 0.9, "mean"),
        f"all, {ALIKE}: measure moved by": at_most(_moved(ours), 0.1, "share"),
        f"all, {KATZ}: SSIM": plain(_ssim(katz), "mean"),
        f"all, {KATZ}: measure moved by": plain(_moved(katz), "share"),
    }


def _ssim(late: Sequence[Late]) -> float:
    return float(np.mean([each.ssim for each in late]))


def _moved(late: Sequence[Late]) -> float:
    return float(np.mean([each.moved for each in late]))


def main(
    quick: bool = typer.Option(False, help="Few prompts: to see it work."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
    prompts: int = typer.Option(50, help="Images of each LoRA."),
    base: Path = typer.Option(Path("zoo/weights/shapes-xl"), help="The model of the LoRAs."),
    files: Path = typer.Option(Path("zoo/adapters/loras"), help="A folder of LoRAs."),
) -> None:
    """Compare late LoRAs with LoRAs in time. Example: `python -m bench.lora_quality --quick`."""
    torch.set_num_threads(1)
    runner = load(base, read_model(base / FILE), device="cpu", dtype="float32")
    assert isinstance(runner, DiffusionRunner)
    count, profiled = (5, 1) if quick else (prompts, COMPARED)
    measured = {}
    for file in sorted(files.glob("*.safetensors")):
        measured[file.stem] = measure(runner, file, count, profiled)
        typer.echo(f"{file.stem}: {measured[file.stem]}", err=True)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread")
    raise SystemExit(finish("lora_quality", figures_of(measured), where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
