"""Benchmark a denoising step outside its model: what the host does for 1, 8 and 32 images.

The model answers at once with what it is given, and the images are small, so that all that is left
is the engine's choice of a batch, the model's input, guidance and the samplers. CPU time of one
thread, medians over steps. Then, with models of the zoo, how much longer than usual the steps of
four images are while others are opened or decoded beside them, which come at any moment of a step:
the bar is for a machine without other work, whose quiet steps are alike; on another the same of
quiet steps says what the machine itself does. What they wait for beside their own steps is counted
apart, in CPU time; without what threads encode and decode.

    python -m bench.host --quick
"""

import gc
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from random import Random

import torch
import typer
from torch import Tensor

from bench.parts.random_sdxl import TINY, build
from bench.parts.report import Figure, at_most, finish, machine, median, percentile, plain
from bench.parts.subject import a_job
from catalog.models import read_models
from core.job import Job
from core.model import Model
from worker.diffusion.device import use_host
from worker.engine.aside import THREAD as DECODER
from worker.engine.engine import Engine, JobImages
from worker.engine.prompts import THREAD as PROMPTS
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
EVERY = 12  #: steps of theirs: nearly always one is decoded by then
SEEDS = 16  #: some 370 steps beside others: the p99 of fewer is the worst of them
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
class Noted:
    """The end of a step."""

    wall_s: float
    cpu_s: float  #: of all but the threads that encode and decode
    step_s: float  #: of it, what the step itself took
    images: int  #: that shared it
    others: int  #: of them, those that are there all the time
    aside: int  #: jobs beside them that wait, are opened or are decoded


@dataclass(frozen=True, slots=True)
class Gap:
    """What passed from one step of the others to the next."""

    wall_s: float
    cpu_s: float  #: of all but the threads that encode and decode
    delay_s: float  #: of it, what was no step
    images: int
    is_beside: bool  #: of another image's prompt or latent

    @classmethod
    def between(cls, last: Noted, now: Noted) -> "Gap":
        """Compare the ends of two steps."""
        is_beside = last.images != now.images or bool(last.aside or now.aside)
        wall_s, cpu_s = now.wall_s - last.wall_s, now.cpu_s - last.cpu_s
        return cls(wall_s, cpu_s, cpu_s - now.step_s, now.images, is_beside)


def gaps(folder: Path, model: Model, seed: int) -> list[Gap]:
    """Have short jobs come and go beside long ones, at any moment of a step; measure all steps."""
    noted: list[Noted] = []
    short: list[Future[JobImages]] = []

    def note(batch: Sequence[Slot], step_s: float) -> None:
        others = sum(slot.ticket.job.request.seed < OTHERS for slot in batch)
        aside = sum(not each.done() for each in short) - (len(batch) - others)
        now = time.perf_counter(), _computed_s(), step_s
        noted.append(Noted(*now, images=len(batch), others=others, aside=aside))

    engine = Engine(
        max_slots=2 * OTHERS, max_rows=64, slo_s=60.0, on_step=note, stopwatch=_computed_s
    )
    engine.attach(load(folder, model, device="cpu", dtype="float32"))
    long = [engine.add(a_job(model, n, steps=model.max_steps), None) for n in range(OTHERS)]
    engine.start()
    random = Random(seed)
    while not any(each.done() for each in long):
        seen = len(noted)
        while len(noted) < seen + EVERY and not long[0].done():
            time.sleep(1e-3)
        time.sleep(random.random() * engine.stats().step_s.get(model.name, 0.0))
        number = OTHERS + len(short) + 1000 * seed
        short.append(engine.add(a_job(model, number, steps=random.choice((1, 2, 3))), None))
    engine.close()
    pairs = pairwise(noted)
    return [Gap.between(a, b) for a, b in pairs if a.others == b.others == OTHERS]


def _computed_s() -> float:
    """Count the CPU time of this process but for what another core may encode and decode (s)."""
    clocks = [
        time.pthread_getcpuclockid(each.ident)
        for each in threading.enumerate()
        if each.name.startswith((PROMPTS, DECODER)) and each.ident is not None
    ]
    return time.process_time() - sum(time.clock_gettime(each) for each in clocks)


def beside(zoo: Path, repeats: int) -> dict[str, Figure]:
    """Compare steps beside which an image is opened or decoded with those that have it quiet."""
    figures: dict[str, Figure] = {}
    for name, model in read_models(zoo).items():
        if name in BESIDE:
            found = [gap for seed in range(repeats) for gap in gaps(zoo / name, model, seed)]
            figures |= {f"{name}: {what}": figure for what, figure in compared(found).items()}
    return figures


def compared(found: Sequence[Gap]) -> dict[str, Figure]:
    """Measure gaps in medians of quiet ones of as many images."""
    walls, cpus, delays = _Shares(), _Shares(), _Shares()
    for images in {gap.images for gap in found}:
        alike = [gap for gap in found if gap.images == images]
        if quiet := [gap for gap in alike if not gap.is_beside]:
            wall_s, cpu_s = (median([g.wall_s for g in quiet]), median([g.cpu_s for g in quiet]))
            for gap in alike:
                walls.of(gap).append(gap.wall_s / wall_s)
                cpus.of(gap).append(gap.cpu_s / cpu_s)
                delays.of(gap).append(gap.delay_s / cpu_s)
    quiet_p99, beside_p99 = (percentile(each, 0.99) for each in (walls.quiet, walls.beside))
    return {
        "quiet steps, p99": plain(quiet_p99, "medians"),
        "steps beside, median": plain(median(walls.beside), "medians"),
        "steps beside, p99": at_most(beside_p99, 1.15, "medians"),
        "steps beside, p99, in that of quiet steps": plain(beside_p99 / quiet_p99, "ratio"),
        "quiet steps, p99, CPU": plain(percentile(cpus.quiet, 0.99), "medians"),
        "steps beside, p99, CPU": plain(percentile(cpus.beside, 0.99), "medians"),
        "beside a step, p99, CPU": at_most(percentile(delays.beside, 0.99), 0.15, "medians"),
    }


@dataclass(frozen=True, slots=True)
class _Shares:
    """Figures of gaps, quiet ones and those beside others."""

    quiet: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)

    def of(self, gap: Gap) -> list[float]:
        return self.beside if gap.is_beside else self.quiet


def main(
    quick: bool = typer.Option(False, help="Fewer steps, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure what a step costs the host. Example: `python -m bench.host --quick`."""
    use_host(1)  # as a worker does, whose heap keeps what its steps free
    gc.collect()
    gc.freeze()  # as its first imports are: no step waits for a search through them for garbage
    pipe = build(TINY, device="cpu", dtype=torch.float32)
    runner = Blind(MODEL, pipe, device=torch.device("cpu"), dtype=torch.float32)
    figures: dict[str, Figure] = {}
    for sampler, bars in BARS.items():
        for slots, bar in zip(SLOTS, bars, strict=True):
            took = step_ms(runner, sampler, slots, 100 if quick else 400)
            name = f"{sampler}, {slots} in flight"
            figures[name] = plain(took, "ms") if bar is None else at_most(took, bar, "ms")
    figures |= beside(Path("zoo/weights"), 1 if quick else SEEDS)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread")
    raise SystemExit(finish("host", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
