"""Benchmark a denoising step outside its model: what the host does for 1, 8 and 32 images.

The model answers at once with what it is given, and the images are small, so that all that is left
is the engine's choice of a batch, the model's input, guidance and the samplers. CPU time of one
thread, medians over steps.

    python -m bench.host --quick
"""

import time
from dataclasses import replace

import torch
import typer
from torch import Tensor

from bench.parts.random_sdxl import TINY, build
from bench.parts.report import Figure, at_most, finish, machine, median, plain
from bench.parts.subject import a_job
from core.job import Job
from core.model import Model
from worker.engine.engine import Engine
from worker.families.sdxl import SdxlRunner
from worker.pipeline.packing import Packed

SLOTS = (1, 8, 32)
#: Milliseconds of a step at most, by sampler and images; None: nothing is promised.
BARS: dict[str, tuple[float | None, ...]] = {
    "euler": (0.12, 0.2, 0.4),
    "euler-ancestral": (None, None, None),
    "dpm++2m": (None, None, None),
    "unipc": (0.3, 0.5, 1.2),
}
MODEL = Model(name="host", family="sdxl", max_steps=1000)
SIDE = 16  #: of an image: 64 latent pixels, so that arithmetic takes next to nothing
WARM_UP = 10  #: steps


class Blind(SdxlRunner):
    """Predicts what it is shown."""

    def call(self, latents: Tensor, times: Tensor, packed: Packed) -> Tensor:
        del times, packed
        return latents


def step_ms(runner: Blind, sampler: str, slots: int, steps: int) -> float:
    """Measure the CPU time of a step that so many images share."""
    engine = Engine(max_slots=slots, max_rows=2 * slots, slo_s=60.0)
    engine.attach(runner)
    for number in range(slots):
        engine.add(_job(sampler, number, steps + WARM_UP + 2), None)
    for _ in range(WARM_UP):
        engine.step()
    taken = []
    for _ in range(steps):
        begun = time.thread_time()
        engine.step()
        taken.append(time.thread_time() - begun)
    engine.close()
    return 1e3 * median(taken)


def _job(sampler: str, number: int, steps: int) -> Job:
    job = a_job(MODEL, number, steps=steps, size=SIDE)
    return replace(job, request=replace(job.request, scheduler=sampler))


def main(
    quick: bool = typer.Option(False, help="Fewer steps, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure what a step costs the host. Example: `python -m bench.host --quick`."""
    torch.set_num_threads(1)
    pipe = build(TINY, device="cpu", dtype=torch.float32)
    runner = Blind(MODEL, pipe, device=torch.device("cpu"), dtype=torch.float32)
    figures: dict[str, Figure] = {}
    for sampler, bars in BARS.items():
        for slots, bar in zip(SLOTS, bars, strict=True):
            took = step_ms(runner, sampler, slots, 100 if quick else 400)
            name = f"{sampler}, {slots} in flight"
            figures[name] = plain(took, "ms") if bar is None else at_most(took, bar, "ms")
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread")
    raise SystemExit(finish("host", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
