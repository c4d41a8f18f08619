"""How much of an image's time is left when it goes on from another's latents? Argus §2.1.

The real way of a job on a model of the zoo: latents read from a directory store, the engine, its
sampler, PNG, the store; all in this one thread, so that its CPU time is all there is. N - K of N
steps shall take that part of the time of N steps. What comes on top is measured apart from the
steps, and listed.

    python -m bench.approximate --quick
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

import msgspec
import torch
import typer
from pydantic import SecretStr

from bench.parts.subject import a_job
from bench.report import Figure, Instant, at_most, finish, machine, median, plain
from core.job import Job
from core.latents import Start, latents_key
from core.settings import Settings
from core.variant import SCHEDULE_STEPS, SKIPS, Model
from worker import finish as storing
from worker.engine import Engine
from worker.families.unet import UNetRunner
from worker.finish import Parcel
from worker.inputs import read_start
from worker.pipeline import load
from worker.runner import Pixels
from worker.slot import Made

#: How far a measured share of the time may be from the promised one.
BAR = 0.05


class Subject:
    """One model, an engine that is stepped by hand, and the store that `storing` has opened."""

    def __init__(self, folder: Path) -> None:
        model = msgspec.json.decode((folder / "atelier.json").read_bytes(), type=Model)
        runner = load(folder, model, device="cpu", dtype="float32")
        assert isinstance(runner, UNetRunner)
        runner.lend()
        self.model, self.runner = model, runner
        self._engine = Engine(max_slots=1, max_rows=2, slo_s=3600)
        self._engine.attach(runner)
        self._numbers = count()

    def job(self) -> Job:
        """Ask for an image of a prompt that was not asked for before."""
        return a_job(self.model, next(self._numbers), steps=SCHEDULE_STEPS)

    def make(self, job: Job) -> Made:
        """Make an image, from what it starts from to its PNG in the store."""
        made = self._engine.add(job, None, read_start(job.placement))
        while self._engine.step():
            pass
        self.save(job, made.result().images[0])
        return made.result()

    def make_without_steps(self, job: Job) -> None:
        """Do for an image all that is not a step: read the prompt, draw noise, decode, save."""
        sample = self.runner.open(job.request, job.request.seed)
        self.save(job, self.runner.decode(sample))

    def save(self, job: Job, pixels: Pixels) -> None:
        """Encode and store one image."""
        storing.store_images(Parcel(prefix=f"bench/{job.id}", images=[pixels], seeds=[0]))

    def leave(self, job: Job, made: Made) -> None:
        """Store the latents of an image for others, as it is done after its delivery."""
        for skip, kept in made.left.items():
            storing.put_latents(latents_key(job.tenant, job.id, skip), kept.write())


def starting_from(lender: Job, skip: int, job: Job) -> Job:
    """Place a job so that it goes on from another one's latents at K."""
    start = Start(key=latents_key(lender.tenant, lender.id, skip), similarity=1.0)
    return replace(job, placement=replace(job.placement, skipped_steps=skip, start=start))


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
    """Make images at every K in turn, each time from another K on: the machine has its moods."""
    lender = subject.job()
    left = subject.make(lender)
    subject.leave(lender, left)
    placed = {skip: starting_from(lender, skip, lender).placement for skip in SKIPS}
    whole: dict[int, list[float]] = {skip: [] for skip in (0, *SKIPS)}
    beside, fetch, leave = [], [], []
    for number in range(rounds):
        for skip in rotated((0, *SKIPS), number):
            job = subject.job()
            job = replace(job, placement=placed.get(skip, job.placement))
            whole[skip].append(cpu_s(partial(check_level, subject, job)))
            beside.append(cpu_s(partial(subject.make_without_steps, subject.job())))
        fetch += [cpu_s(partial(read_start, placement)) for placement in placed.values()]
        leave.append(cpu_s(partial(subject.leave, lender, left)))
    return Measured(
        whole=median(whole[0]),
        shares={k: median([a / b for a, b in zip(whole[k], whole[0], strict=True)]) for k in SKIPS},
        beside_steps=median(beside),
        fetch=median(fetch),
        leave=median(leave),
    )


def rotated(values: Sequence[int], by: int) -> list[int]:
    """Begin at another place and go round."""
    at = by % len(values)
    return [*values[at:], *values[:at]]


def check_level(subject: Subject, job: Job) -> None:
    """Make an image that really begins where it was placed to."""
    reached = subject.make(job).skipped_steps
    if reached != job.placement.skipped_steps:
        raise SystemExit(f"job {job.id} began at K = {reached}: {job.placement}")


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
        storing.start(Settings(data_dir=Path(folder), url_secret=SecretStr("of the bench")))
        found = measure(Subject(model), 4 if quick else 12)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread", model.name)
    raise SystemExit(finish("approximate", figures(found), where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
