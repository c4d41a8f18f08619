"""Benchmark what a killed worker costs: steps made again, and what keeping states takes.

A process that makes an image is killed at any step of it (SIGKILL); another goes on from what it
has stored, and the image is compared with the one that nobody killed. Keeping states is compared
with not keeping any in pairs of the same images, by CPU time.

    python -m bench.resume --quick
"""

import hashlib
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from pydantic import SecretStr

from bench.parts.report import Figure, at_most, finish, machine, median, percentile, plain
from bench.parts.subject import Watched, a_job
from catalog.lora.names import Shapes
from catalog.lora.parse import LayerChange, parse
from catalog.masking.config import MaskingConfig
from catalog.models import read_models
from core.job import Edit, Job, Task
from core.settings import Settings
from core.uploads.lora import AppliedLora
from storage.objects.image_states import StateKey, folder_of
from storage.objects.store import open_objects
from worker.cpu.image_states import newest
from worker.diffusion.image_state import ImageState, read_state
from worker.diffusion.runner import EditInputs, Pixels
from worker.engine.engine import Engine
from worker.engine.slot import Slot
from worker.families.diffusion_runner import DiffusionRunner
from worker.families.load import load
from worker.futures import resolved
from worker.jobs.images import Images
from worker.jobs.states import StateKeeper
from worker.lora.cache import LoraCache
from worker.masking.activations import Activations
from worker.pipeline.sample import UNetSample

MODELS = Path("zoo/weights")
LORA = Path("zoo/adapters/loras/night.safetensors")
STEPS = 50
EVERY = Settings.model_fields["state_steps"].default
#: Bars: mean steps that a kill costs, how far the image may differ, and what keeping may cost.
LOST, SAME, SHARE = 5.0, 1e-5, 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One model, and an image of it."""

    runner: DiffusionRunner
    job: Job
    brought: EditInputs | None = None


class Floats(Watched):
    """A runner that keeps the last image it decodes, before it is rounded to pixels."""

    image: NDArray[np.float32]

    def decode(self, sample: UNetSample) -> Pixels:
        self.image = self.runner.image(sample).cpu().numpy()
        return super().decode(sample)


def subjects() -> Iterator[tuple[str, Subject]]:
    """Load each model when its turn comes."""
    yield "UNet", _subject("shapes-xl")
    yield "DiT", _subject("shapes-dit")
    yield "edit", _edit(_subject("shapes-xl"))
    yield "LoRA", _with_lora(_subject("shapes-xl"))


def _subject(name: str) -> Subject:
    model = read_models(MODELS)[name]
    runner = load(MODELS / name, model, device="cpu", dtype="float32")
    assert isinstance(runner, DiffusionRunner)
    return Subject(runner=runner, job=a_job(model, 3, steps=STEPS))


def _edit(subject: Subject) -> Subject:
    """Edit a template that was recorded before, as production does: one step in ten in full."""
    side = subject.job.request.width
    template = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    mask = np.zeros((side, side), np.uint8)
    mask[side // 4 : side // 2, side // 4 : side // 2] = 255
    digest = hashlib.sha256(template.tobytes()).hexdigest()
    edit = Edit(template="t", template_sha256=digest, mask="m")
    request = replace(subject.job.request, task=Task.EDIT, edit=edit)
    subject.runner.overlays.reuse(Activations(2**32), MaskingConfig())
    made = replace(
        subject,
        job=replace(subject.job, request=request),
        brought=EditInputs(template=template, mask=mask, strength=1.0),
    )
    make(made)
    return made


class Reads:
    """Gives a LoRA of a file at once."""

    def load(
        self, use: AppliedLora, shapes: Shapes
    ) -> "Future[tuple[torch.Tensor, list[LayerChange]]]":
        del use
        data = LORA.read_bytes()
        return resolved((torch.frombuffer(bytearray(data), dtype=torch.uint8), parse(data, shapes)))


def _with_lora(subject: Subject) -> Subject:
    use = AppliedLora(
        id="night", key="k", models=(subject.job.request.model,), size_bytes=1, sha256="", scale=0.8
    )
    subject.runner.overlays.use_loras(LoraCache(Reads(), 2**30))
    return replace(
        subject, job=replace(subject.job, request=replace(subject.job.request, loras=(use,)))
    )


def identify(job: Job) -> str:
    """All images here are told apart by their jobs."""
    return job.request.model


def make(
    subject: Subject,
    states: Mapping[int, ImageState] | None = None,
    on_step: Callable[[Sequence[Slot], float], object] = lambda batch, step_s: None,
) -> Floats:
    """Make an image, or what is left of it."""
    watched = Floats(subject.runner)
    engine = Engine(max_slots=8, max_rows=16, slo_s=3600.0, on_step=on_step)
    engine.attach(watched)
    future = engine.add(subject.job, None, subject.brought, states or {})
    while not future.done():
        engine.step()
    future.result()
    return watched


@dataclass(slots=True, kw_only=True)
class Costs:
    """What keeping states took of the thread that steps."""

    copies_s: float = 0.0
    steps_s: float = 0.0
    by_step: list[float] = field(default_factory=list)


@contextmanager
def keeping(settings: Settings, costs: Costs) -> Iterator[Callable[[Sequence[Slot], float], None]]:
    """Keep states as a worker does; for `on_step`."""
    images = Images(settings)
    images.warm_up()
    keeper = StateKeeper(store=images, identify=identify, every=settings.state_steps)
    keeper.start()

    def on_step(batch: Sequence[Slot], step_s: float) -> None:
        began = time.perf_counter()
        keeper.note(batch, step_s)
        costs.copies_s += time.perf_counter() - began
        costs.steps_s += step_s

    try:
        yield on_step
    finally:
        keeper.close()
        images.close()


def kill(subject: Subject, settings: Settings, at_s: float) -> int:
    """Have a process make an image, kill it after so long; say how many steps it had taken."""
    spawn = multiprocessing.get_context("fork")
    taken, ready = spawn.Value("i", 0), spawn.Event()

    def child() -> None:
        with keeping(settings, Costs()) as keep:

            def on_step(batch: Sequence[Slot], step_s: float) -> None:
                with taken.get_lock():
                    taken.value += 1
                keep(batch, step_s)

            ready.set()
            make(subject, on_step=on_step)
            time.sleep(3600.0)

    process = spawn.Process(target=child)
    process.start()
    ready.wait()
    time.sleep(at_s)
    process.kill()
    process.join()
    return int(taken.value)


def left(subject: Subject, settings: Settings) -> dict[int, ImageState]:
    """Read what a process has left of an image."""
    objects, job = open_objects(settings), subject.job
    stored = [each.key for each in objects.list(folder_of(job.tenant, job.id))]
    found = {key: objects.get(key) for key in newest(stored)}
    objects.delete(stored)
    keys = {key: StateKey.read(key) for key in found}
    return {name.index: read_state(found[key], identify(job)) for key, name in keys.items() if name}


def killed(name: str, subject: Subject, folder: Path, kills: int) -> dict[str, Figure]:
    """Kill at times spread over the whole image, and go on each time."""
    settings = Settings(data_dir=folder, url_secret=SecretStr("s"), state_steps=EVERY)
    began = time.perf_counter()
    whole = make(subject)
    image_s = time.perf_counter() - began
    draw, lost, differences = Random(name), list[float](), list[float]()
    for number in range(kills):
        taken = kill(subject, settings, image_s * (number + draw.random()) / kills)
        again = make(subject, left(subject, settings))
        lost.append(taken + again.calls - whole.calls)
        differences.append(float(np.abs(again.image - whole.image).max()))
    return {
        f"{name}: steps lost a kill, mean": at_most(float(np.mean(lost)), LOST, "steps of 50"),
        f"{name}: steps lost a kill, most": plain(max(lost), "steps of 50"),
        f"{name}: the image differs by": at_most(max(differences), SAME, "of 1"),
    }


def cost(name: str, subject: Subject, folder: Path, rounds: int) -> dict[str, Figure]:
    """Make the same image with and without keeping states, in turn."""
    settings = Settings(data_dir=folder, url_secret=SecretStr("s"), state_steps=EVERY)
    costs, ratios = Costs(), list[float]()
    with keeping(settings, costs) as keep:
        for number in range(rounds + 1):
            taken = {}
            for is_kept in (True, False) if number % 2 else (False, True):
                began = time.process_time()
                make(subject, on_step=keep if is_kept else lambda batch, step_s: None)
                taken[is_kept] = time.process_time() - began
            if number:  # the first warms up
                ratios.append(taken[True] / taken[False])
    return {
        f"{name}: copies, of the thread that steps": at_most(
            costs.copies_s / costs.steps_s, SHARE, "of a step"
        ),
        f"{name}: CPU time with states / without": plain(median(ratios), "ratio"),
        f"{name}: the same, middle half": plain(
            percentile(ratios, 0.75) - percentile(ratios, 0.25), "ratio"
        ),
    }


def main(quick: bool = False, json: bool = False, only: str = "") -> None:
    """Measure what a kill costs, and what states do. Example: `python -m bench.resume --quick`."""
    figures: dict[str, Figure] = {}
    for name, subject in subjects():
        if only in ("", name):
            with TemporaryDirectory() as folder:
                figures |= killed(name, subject, Path(folder), 4 if quick else 12)
                figures |= cost(name, subject, Path(folder), 4 if quick else 16)
    raise SystemExit(finish("resume", figures, where=machine(), is_json=json))


if __name__ == "__main__":
    typer.run(main)
