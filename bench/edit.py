"""Benchmark masked edits: CPU time against the stock inpaint pipeline.

A random model with attention at every token of its latents; ratios of CPU time within one run.

    python -m bench.edit --quick
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
import typer
from PIL import Image

from bench.parts.random_flux import build_flux, flux_inputs
from bench.parts.random_sd3 import build_transformer, transformer_inputs
from bench.parts.random_sdxl import MEDIUM, build
from bench.parts.report import Figure, Instant, at_least, finish, machine, median, plain
from bench.parts.transformer_step import TransformerStep
from catalog.masking.config import Keep, MaskingConfig
from core.job import Edit, JobRequest, Quality, Task
from core.model import Model
from worker.diffusion.runner import EditInputs
from worker.diffusion.stock import Pipe, inpainting
from worker.families.sdxl import SdxlRunner
from worker.masking.activations import Activations
from worker.pipeline.sample import UNetSample

SIDE = 128
SEED = 7
BUDGET = 2**35  #: bytes: more than what is recorded of one template

#: Share of the image under the mask -> how much cheaper the whole edit must be.
WHOLE = {0.05: 2.3, 0.11: 2.1, 0.2: 1.8, 0.35: 1.5}
#: Share of the image under the mask of a step alone; how much cheaper that of a transformer must
#: be, of which no whole edits are made here.
STEP, STEP_OF_DIT = 0.11, 3.5
#: The same edit with convolutions cropped, and how much cheaper it must be.
CROPPED = 2.6
#: Share of the image under each mask of one batch: every eighth of those that `bench.edit_quality`
#: draws, most of them small and a few large as in InstGenIE's traces (Fig. 3, mean 0.11).
BATCH = (0.075, 0.08, 0.086, 0.094, 0.103, 0.116, 0.136, 0.177)


class Subject:
    """One model, one template that was edited before, and edits of it."""

    def __init__(
        self, steps: int, knobs: MaskingConfig | None = None, runner: SdxlRunner | None = None
    ) -> None:
        """Record the template, by a model of medium size unless told otherwise."""
        self.runner = runner or _medium()
        self.runner.overlays.reuse(Activations(BUDGET), knobs or MaskingConfig())
        self.steps = steps
        self.side = self.runner.model.default_size
        rng = np.random.default_rng(0)
        self.template = rng.integers(0, 256, (self.side, self.side, 3), dtype=np.uint8)
        self.edit(0.05)

    def request(self, quality: Quality = Quality.AUTO) -> JobRequest:
        """Ask for an edit with the noise that the template was recorded with."""
        asked = replace(request_of(self.steps), model=self.runner.model.name, quality=quality)
        return replace(asked, width=self.side, height=self.side)

    def inputs(self, ratio: float, shift: int = 0) -> EditInputs:
        """Cover a square of the image."""
        side = round(self.side * math.sqrt(ratio))
        at = min((self.side - side) // 2 + shift, self.side - side)
        mask = np.zeros((self.side, self.side), np.uint8)
        mask[at : at + side, at : at + side] = 255
        return EditInputs(template=self.template, mask=mask, strength=1.0)

    def open(self, ratio: float, quality: Quality = Quality.AUTO, shift: int = 0) -> UNetSample:
        """Begin an edit."""
        return self.runner.open(self.request(quality), SEED, self.inputs(ratio, shift))

    def run(self, *samples: UNetSample) -> None:
        """Make edits to their ends, in one batch."""
        for _ in range(self.steps):
            self.runner.advance(samples, self.runner.forward(samples))
        for sample in samples:
            self.runner.decode(sample)

    def edit(self, ratio: float, quality: Quality = Quality.AUTO) -> None:
        """Make one edit, from its request to its pixels."""
        self.run(self.open(ratio, quality))


def _medium() -> SdxlRunner:
    model = Model(name="medium", family="sdxl", default_size=SIDE, max_size=SIDE)
    pipe = build(MEDIUM, device="cpu", dtype=torch.float32)
    return SdxlRunner(model, pipe, device=torch.device("cpu"), dtype=torch.float32)


def request_of(steps: int) -> JobRequest:
    """Ask for an edit of the one template."""
    return JobRequest(
        task=Task.EDIT,
        prompt="a red circle and two blue squares",
        model="medium",
        width=SIDE,
        height=SIDE,
        steps=steps,
        guidance=5.0,
        seed=SEED,
        edit=Edit(template="t", template_sha256="ab", mask="m"),
    )


def make_stock(pipe: Pipe, request: JobRequest, inputs: EditInputs) -> None:
    """Make an edit as a client of diffusers would."""
    pipe(
        request.prompt,
        image=Image.fromarray(inputs.template),
        mask_image=Image.fromarray(inputs.mask),
        strength=1.0,
        width=request.width,
        height=request.height,
        num_inference_steps=request.steps,
        guidance_scale=request.guidance,
        generator=torch.Generator().manual_seed(SEED),
        output_type="np",
    )


def cpu_s(call: Callable[[], object]) -> float:
    """Time one call."""
    begin = Instant.now()
    call()
    return (Instant.now() - begin).cpu_s


def open_stock(subject: Subject) -> Callable[[], object]:
    """Build the stock pipeline over the same parts; gives a call that makes one edit."""
    pipe = inpainting(subject.runner.pipe)
    pipe.scheduler = type(pipe.scheduler).from_config(pipe.scheduler.config)
    pipe.set_progress_bar_config(disable=True)
    return partial(make_stock, pipe, subject.request(), subject.inputs(STEP))


def whole_edits(subject: Subject, cropping: Subject, rounds: int) -> dict[str, Figure]:
    """Compare with the stock pipeline, from prompt and template to pixels."""
    stock = open_stock(subject)
    gains: dict[float, list[float]] = {ratio: [] for ratio in WHOLE}
    cropped = []
    for _ in range(rounds):
        stock_s = cpu_s(stock)
        for ratio, of in gains.items():
            of.append(stock_s / cpu_s(partial(subject.edit, ratio)))
        cropped.append(stock_s / cpu_s(partial(cropping.edit, STEP)))
    name = "edit, mask {}: stock / ours".format
    figures = {
        name(f"{ratio:g}"): at_least(median(of), WHOLE[ratio], "ratio")
        for ratio, of in gains.items()
    }
    figures[name(f"{STEP:g}, cropped")] = at_least(median(cropped), CROPPED, "ratio")
    return figures


def single_steps(subject: Subject, cropping: Subject, rounds: int) -> dict[str, Figure]:
    """Compare a step under a mask with the same step in full."""
    gain, cropped = step_gain(subject, rounds), step_gain(cropping, rounds)
    return {
        f"step of a UNet, mask {STEP:g}": plain(gain, "ratio"),
        f"step of a UNet, mask {STEP:g}, cropped": plain(cropped, "ratio"),
    }


def step_gain(subject: Subject, rounds: int) -> float:
    """Compare a step that follows one in full, as most do, with the one in full."""
    full, cut = subject.open(STEP, Quality.EXACT), subject.open(STEP)
    assert cut.reuse is not None
    cut.reuse.full = frozenset({0})
    for sample in (full, cut):
        subject.runner.advance([sample], subject.runner.forward([sample]))
    gains = [
        cpu_s(partial(subject.runner.forward, [full]))
        / cpu_s(partial(subject.runner.forward, [cut]))
        for _ in range(rounds)
    ]
    return median(gains)


def steps_of_transformers(rounds: int) -> dict[str, Figure]:
    """Compare a step of transformers of 2,304 tokens, guided and not, under a mask and in full."""
    sd3, flux = build_transformer(), build_flux()
    steps = {
        "a transformer": TransformerStep(sd3, transformer_inputs(sd3)),
        "Flux": TransformerStep(flux, flux_inputs()),
    }
    figures = {}
    for name, step in steps.items():
        gains = step.gains(STEP, rounds)
        figures[f"step of {name}, mask {STEP:g}"] = plain(gains[Keep.OUTPUTS], "ratio")
        figures[f"step of {name}, mask {STEP:g}, keys and values kept"] = plain(
            gains[Keep.KEYS], "ratio"
        )
        for keeps in Keep:
            figures[f"{keeps} of a step of {name}"] = plain(step.mebibytes(keeps), "MiB")
    guided = f"step of a transformer, mask {STEP:g}"
    figures[guided] = at_least(figures[guided].value, STEP_OF_DIT, "ratio")
    return figures


def batches(subject: Subject) -> dict[str, Figure]:
    """Compare different masks in one batch with the same one by one: stock, whose time no mask
    changes, and ours.
    """
    stock = open_stock(subject)
    one_s = [cpu_s(stock)]  # before, between and after: a machine is not the same for ten minutes
    alone_s = sum(cpu_s(partial(subject.edit, ratio)) for ratio in BATCH)
    one_s.append(cpu_s(stock))
    samples = [subject.open(ratio, shift=at) for at, ratio in enumerate(BATCH)]
    together_s = cpu_s(partial(subject.run, *samples))
    one_s.append(cpu_s(stock))
    stock_s = len(BATCH) * median(one_s)
    name = f"{len(BATCH)} masks: {{}} / ours together".format
    return {
        name("stock one by one"): at_least(stock_s / together_s, 2.0, "ratio"),
        name("ours one by one"): plain(alone_s / together_s, "ratio"),
    }


def main(
    quick: bool = typer.Option(False, help="Fewer rounds and steps, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure edits against the stock inpaint pipeline. Example: `python -m bench.edit --quick`."""
    torch.set_num_threads(1)
    steps = 10 if quick else 50
    subject, cropping = Subject(steps), Subject(steps, MaskingConfig(crop=True))
    figures = single_steps(subject, cropping, 5) | steps_of_transformers(5)
    figures |= whole_edits(subject, cropping, 1 if quick else 3)
    figures |= batches(subject)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread")
    raise SystemExit(finish("edit", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
