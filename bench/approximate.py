"""Benchmark approximate caching: CPU time of an image that skips K steps (Argus §2.1).

The real way of a job on a model of the zoo: latents read from a directory store, the engine, its
sampler, PNG, the store; all in this one thread, so that its CPU time is all there is. N - K of N
steps shall take that part of the time of N steps. What comes on top is measured apart from the
steps, and listed.

    python -m bench.approximate --quick
"""

import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec
import torch
import typer
from pydantic import SecretStr

from bench.parts.report import Figure, Instant, at_most, finish, machine, median, plain
from bench.parts.subject import a_job
from core.job import Job
from core.latents import Start, latents_key
from core.levels.approximation import SKIPS, skipping
from core.levels.schedule import SCHEDULE_STEPS
from core.model import Model
from core.placement import Placement
from core.settings import Settings
from worker.cpu.inputs import read_start
from worker.cpu.store_images import Parcel, open_store, put_latents, store_images
from worker.diffusion.runner import Pixels
from worker.engine.engine import Engine
from worker.engine.slot import JobImages
from worker.families.diffusion_runner import DiffusionRunner
from worker.families.load import load

T = TypeVar("T")

#: How far a measured share of the time may be from the promised one.
BAR = 0.05
#: How long latents may take to read here: a budget is another bench's matter.
READ_S = 10.0


class Subject:
    """One model, and the store that was opened."""

    def __init__(self, folder: Path) -> None:
        model = msgspec.json.decode((folder / "atelier.json").read_bytes(), type=Model)
        runner = load(folder, model, device="cpu", dtype="float32")
        assert isinstance(runner, DiffusionRunner)
        runner.overlays.lend()
        self.model, self.runner = model, runner
        self._numbers = count()

    def job(self, placement: Placement | None = None) -> Job:
        """Ask for an image of a prompt that was not asked for before."""
        job = a_job(self.model, next(self._numbers), steps=SCHEDULE_STEPS)
        return replace(job, placement=placement or job.placement)

    def make_without_steps(self, job: Job) -> None:
        """Do for an image all that is not a step: read the prompt, draw noise, decode, save."""
        sample = self.runner.open(job.request, job.request.seed)
        save(job, self.runner.decode(sample))


class Making:
    """One image on its way, from what it starts from to its PNG in the store."""

    def __init__(self, runner: DiffusionRunner, job: Job) -> None:
        self.job = job
        self.cpu_s = 0.0  #: that it took so far
        self._engine = Engine(max_slots=1, max_rows=2, slo_s=3600)
        self._engine.attach(runner)
        self._future = self._timed(self._begin)

    def step(self) -> None:
        """Take a step, the first with all that comes before, the last with all that follows."""
        self._timed(self._engine.step)

    def end(self) -> JobImages:
        """Save it, if it has really begun where it was placed to."""
        made, placed = self._future.result(), self.job.placement.approximation
        if made.reached != placed:
            raise SystemExit(f"job {self.job.id} left out {made.reached}, not {placed}")
        self._timed(partial(save, self.job, made.images[0]))
        return made

    def _begin(self) -> "Future[JobImages]":
        return self._engine.add(self.job, None, read_start(self.job.placement, READ_S))

    def _timed(self, call: Callable[[], T]) -> T:
        begin = Instant.now()
        answer = call()
        self.cpu_s += (Instant.now() - begin).cpu_s
        return answer


def save(job: Job, pixels: Pixels) -> None:
    """Encode and store one image."""
    store_images(Parcel(prefix=f"bench/{job.id}", images=[pixels], seeds=[0]))


def leave(job: Job, made: JobImages) -> None:
    """Store the latents of an image for others, as it is done after its delivery."""
    for skip, kept in made.left.items():
        put_latents(latents_key(job.tenant, job.id, skip), kept.write())


def starting_from(lender: Job, skip: int) -> Placement:
    """Place a job so that it goes on from another one's latents at K."""
    start = Start(key=latents_key(lender.tenant, lender.id, skip), similarity=1.0)
    return replace(lender.placement.reached(skipping(skip)), start=start)


def cpu_s(call: Callable[[], object]) -> float:
    """Time one call."""
    begin = Instant.now()
    call()
    return (Instant.now() - begin).cpu_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Medians; CPU seconds."""

    whole: float  #: of an image from noise
    shares: dict[int, float]  #: of that, which an image at K takes: ratios within one round
    beside_steps: float  #: prompt, noise, decoder, PNG, store
    fetch: float  #: latents from the store
    leave: float  #: latents of an image into the store, after its delivery


def measure(subject: Subject, rounds: int) -> Measured:
    """Make images at every K, again and again."""
    lender = Making(subject.runner, subject.job())
    for _ in range(SCHEDULE_STEPS):
        lender.step()
    left = lender.end()
    leave(lender.job, left)
    placed = {0: lender.job.placement} | {k: starting_from(lender.job, k) for k in SKIPS}
    whole: dict[int, list[float]] = {skip: [] for skip in placed}
    beside, fetch, leaving = [], [], []
    for number in range(rounds):
        for skip, image in one_round(subject, placed, are_ending_together=bool(number % 2)).items():
            whole[skip].append(image.cpu_s)
            beside.append(cpu_s(partial(subject.make_without_steps, subject.job())))
            fetch.append(cpu_s(partial(read_start, placed[SKIPS[0]], READ_S)))
        leaving.append(cpu_s(partial(leave, lender.job, left)))
    return Measured(
        whole=median(whole[0]),
        shares={k: median([a / b for a, b in zip(whole[k], whole[0], strict=True)]) for k in SKIPS},
        beside_steps=median(beside),
        fetch=median(fetch),
        leave=median(leaving),
    )


def one_round(
    subject: Subject, placed: Mapping[int, Placement], *, are_ending_together: bool
) -> dict[int, Making]:
    """Make an image at every K, a step of each in turn: the machine's moods meet all alike.

    They begin together, or they end together; by turns, so that a slow drift favours none.
    """
    images: dict[int, Making] = {}
    for turn in range(SCHEDULE_STEPS):
        for skip, placement in placed.items():
            if turn == (skip if are_ending_together else 0):
                images[skip] = Making(subject.runner, subject.job(placement))
            if skip in images:
                images[skip].step()
    for image in images.values():
        image.end()
    return images


def promised_share(found: Measured, skip: int) -> float:
    """Work out which part of an image's time is left at K > 0."""
    steps_s = found.whole - found.beside_steps
    left_s = steps_s * (SCHEDULE_STEPS - skip) / SCHEDULE_STEPS
    return (left_s + found.beside_steps + found.fetch) / found.whole


def figures(found: Measured) -> dict[str, Figure]:
    """Compare what was measured with what was promised."""
    rows = {"an image from noise": plain(1e3 * found.whole, "ms")}
    rows["of that, beside its steps"] = plain(1e3 * found.beside_steps, "ms")
    rows["reading latents"] = plain(1e3 * found.fetch, "ms")
    rows["leaving latents, after delivery"] = plain(1e3 * found.leave, "ms")
    for skip, share in found.shares.items():
        rows[f"K = {skip}: share of the time"] = plain(share, "ratio, CPU time")
        off = abs(share - promised_share(found, skip))
        rows[f"K = {skip}: off the promise"] = at_most(off, BAR, "ratio")
    return rows


def main(
    quick: bool = typer.Option(False, help="Fewer rounds, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
    model: Path = typer.Option(Path("zoo/weights/shapes-xl"), help="A model folder."),
) -> None:
    """Measure images that skip steps. Example: `python -m bench.approximate --quick`."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="atelier-approximate-") as folder:
        open_store(Settings(data_dir=Path(folder), url_secret=SecretStr("of the bench")))
        found = measure(Subject(model), 2 if quick else 6)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread", model.name)
    raise SystemExit(finish("approximate", figures(found), where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
