"""How close is an image whose LoRA came late to the same image with its LoRA from the start?

Every LoRA of the zoo, with the bound that `worker/lora/bound.py` measures for it on other prompts,
and always as late as that allows. The same noise makes both.

    python -m bench.lora_quality --prompts 50
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import typer
from skimage.metrics import structural_similarity

from bench.lora import read
from bench.report import Figure, at_least, at_most, finish, machine, plain
from core.job import JobRequest
from core.variant import num_skipped
from storage.models import FILE, read_model
from worker.families.unet import UNetRunner
from worker.lora.bound import bound_of, likeness
from worker.lora.mix import PLAIN, Mix
from worker.pipeline import load
from worker.runner import Pixels
from zoo.lora.styles import STYLES
from zoo.prompts.sets import Split, prompt_set

#: Images that step together.
BATCH = 8
#: Prompts that bounds are measured on.
PROFILED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """What became of the images of one LoRA."""

    bound: int  #: K of 50
    ssim: float  #: mean over prompts
    at_once: float  #: mean measure of the style, with the LoRA from the start
    late: float  #: and with it as late as may be


def requests_of(runner: UNetRunner, split: Split, count: int) -> list[JobRequest]:
    """Ask for images of the first prompts of a set, of all levels."""
    model = runner.model
    prompts = list(prompt_set(split, per_level=-(-count // 5)))[:count]
    return [
        JobRequest(
            prompt=prompt.caption,
            model=model.name,
            width=model.default_size,
            height=model.default_size,
            steps=model.default_steps,
            guidance=model.default_guidance,
            seed=seed,
        )
        for seed, prompt in enumerate(prompts)
    ]


def images(
    runner: UNetRunner, requests: Sequence[JobRequest], mix: Mix, after: int
) -> Iterator[Pixels]:
    """Make images whose LoRAs come after some steps."""
    for together in (requests[at : at + BATCH] for at in range(0, len(requests), BATCH)):
        begun = PLAIN if after else mix
        samples = [runner.begin(request, request.seed, None, begun) for request in together]
        for step in range(samples[0].num_steps):
            if after and step == after:
                for sample, request in zip(samples, together, strict=True):
                    runner.adapt(sample, request, mix)
            for sample, prediction in zip(samples, runner.forward(samples), strict=True):
                runner.advance(sample, prediction)
        yield from (runner.decode(sample) for sample in samples)


def measure(runner: UNetRunner, file: Path, count: int, profiled: int) -> Late:
    """Make images with one LoRA, in time and late."""
    mix = Mix.of([(read(runner, file), 1.0)])
    asked = requests_of(runner, Split.VALIDATION, profiled)
    bound = bound_of([likeness(runner, request, mix) for request in asked])
    requests = requests_of(runner, Split.TEST, count)
    at_once = list(images(runner, requests, mix, 0))
    after = num_skipped(bound, requests[0].steps)
    late = list(images(runner, requests, mix, after)) if after else at_once
    alike = [
        structural_similarity(one, other, channel_axis=2, data_range=255)
        for one, other in zip(at_once, late, strict=True)
    ]
    style = STYLES[file.stem]
    return Late(
        bound=bound,
        ssim=float(np.mean(alike)),
        at_once=float(np.mean([style.measure(image) for image in at_once])),
        late=float(np.mean([style.measure(image) for image in late])),
    )


def figures_of(measured: dict[str, Late]) -> dict[str, Figure]:
    """State each LoRA, and the means that something was promised about."""
    figures: dict[str, Figure] = {}
    for name, each in measured.items():
        figures[f"{name}: bound"] = plain(each.bound, "of 50 steps")
        figures[f"{name}: SSIM"] = plain(each.ssim, "mean")
        figures[f"{name}: measure, late / at once"] = plain(each.late / each.at_once, "ratio")
    apart = [abs(each.late / each.at_once - 1) for each in measured.values()]
    figures["SSIM, all"] = at_least(
        float(np.mean([e.ssim for e in measured.values()])), 0.9, "mean"
    )
    figures["measure of the style moved by"] = at_most(float(np.mean(apart)), 0.1, "share")
    return figures


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
    assert isinstance(runner, UNetRunner)
    count, profiled = (2, 1) if quick else (prompts, PROFILED)
    measured = {
        file.stem: measure(runner, file, count, profiled)
        for file in sorted(files.glob("*.safetensors"))
    }
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread")
    raise SystemExit(finish("lora_quality", figures_of(measured), where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
