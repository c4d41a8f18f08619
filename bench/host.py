"""Benchmark a denoising step outside its model: what the host does for 1, 8 and 32 images.

The model answers at once with what it is given, and the images are small, so that all that is left
is the engine's choice of a batch, the model's input, guidance and the samplers. CPU time of one
thread, medians over steps. Then, with a model of the zoo, how much longer than usual the steps of
four images are while a fifth is opened or decoded beside them.

    python -m bench.host --quick
"""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import typer
from torch import Tensor

from bench.parts.random_sdxl import TINY, build
from bench.parts.report import Figure, at_most, finish, machine, median, percentile, plain
from bench.parts.subject import a_job
from catalog.models import read_models
from core.job import Job
from core.model import Model
from worker.engine.engine import Engine, JobImages
from worker.engine.slot import Slot
from worker.families.load import load
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
OTHERS = 4  #: images, beside which another is opened or decoded
BESIDE = ("shapes-xl", "shapes-dit")  #: models


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


@dataclass(frozen=True, slots=True)
class Gap:
    """CPU time from one step of the others to the next."""

    seconds: float
    is_beside: bool  #: of another image's prompt or latent


def gaps(folder: Path, model: Model, rounds: int) -> list[Gap]:
    """Have short jobs come and go beside long ones; measure the steps of these alone."""
    runner = load(folder, model, device="cpu", dtype="float32")
    done = [0.0, 0.0]  #: CPU time of the last two steps of the others, (s)
    found: list[Gap] = []
    short: list[Future[JobImages]] = []

    def note(batch: Sequence[Slot], _: float) -> None:
        is_theirs = len(batch) == OTHERS and all(s.ticket.job.request.seed < OTHERS for s in batch)
        done[0], done[1] = done[1], time.process_time() if is_theirs else 0.0
        if done[0] and done[1]:
            found.append(Gap(done[1] - done[0], bool(short and not short[-1].done())))

    engine = Engine(max_slots=OTHERS + 1, max_rows=64, slo_s=60.0, on_step=note)
    engine.attach(runner)
    long = [engine.add(a_job(model, n, steps=model.max_steps), None) for n in range(OTHERS)]
    for number in range(rounds):
        for _ in range(6):
            engine.step()
        if any(each.done() for each in long):
            break
        short.append(engine.add(a_job(model, OTHERS + number, steps=1), None))
        while not short[-1].done():
            engine.step()
    engine.close()
    return found


def beside(zoo: Path, repeats: int) -> dict[str, Figure]:
    """Compare steps beside which an image is opened or decoded with those that have it quiet."""
    figures = {}
    for name, model in read_models(zoo).items():
        if name in BESIDE:
            found = [gap for _ in range(repeats) for gap in gaps(zoo / name, model, 20)]
            quiet = median([gap.seconds for gap in found if not gap.is_beside])
            ratios = [gap.seconds / quiet for gap in found if gap.is_beside]
            figures[f"{name}: a step beside, median / quiet"] = plain(median(ratios), "ratio")
            p99 = percentile(ratios, 0.99)
            figures[f"{name}: a step beside, p99 / quiet median"] = at_most(p99, 1.15, "ratio")
    return figures


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
    figures |= beside(Path("zoo/weights"), 1 if quick else 4)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread")
    raise SystemExit(finish("host", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
