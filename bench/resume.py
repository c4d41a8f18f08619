"""Benchmark what a killed worker costs: steps made again, and what keeping states takes.

A process that makes an image is killed at any step of it (SIGKILL); another goes on from what it
has stored, and the image is compared with the one that nobody killed. Keeping states is compared
with not keeping any in pairs of the same images, by CPU time. Then the same with workers of a
whole service, and SIGTERM to them as machines get it that are taken away.

    python -m bench.resume --quick
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import torch
import typer
from pydantic import SecretStr

from bench.parts.interrupted import STEPS, Subject, make, subjects
from bench.parts.killed_workers import Interruptions, interrupt
from bench.parts.report import Figure, at_most, finish, machine, median, percentile, plain
from core.job import Job
from core.settings import Settings
from storage.objects.image_states import StateKey, folder_of
from storage.objects.store import open_objects
from worker.cpu.image_states import newest
from worker.diffusion.image_state import ImageState, read_state
from worker.engine.slot import Slot
from worker.jobs.images import Images
from worker.jobs.states import StateWriter

EVERY = Settings.model_fields["state_steps"].default
#: Bars: mean steps that a kill costs, how far the image may differ, what keeping may cost, and the
#: seconds in which a worker that is asked to end has handed its jobs over.
LOST, SAME, SHARE, HANDED_S = 5.0, 1e-5, 0.01, 2.0


def identify(job: Job) -> str:
    """All images here are told apart by their jobs."""
    return job.request.model


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
    writer = StateWriter(store=images, identify=identify, every=settings.state_steps)
    writer.start()

    def on_step(batch: Sequence[Slot], step_s: float) -> None:
        began = time.perf_counter()
        writer.note(batch, step_s)
        costs.copies_s += time.perf_counter() - began
        costs.steps_s += step_s

    try:
        yield on_step
    finally:
        writer.close()
        images.close()


def kill(subject: Subject, settings: Settings, at: float, step_s: float) -> int:
    """Have a process make an image, kill it at a part of a step; say how many it had taken."""
    spawn = multiprocessing.get_context("fork")
    taken, ready = spawn.Value("i", 0), spawn.Semaphore(0)

    def child() -> None:
        with keeping(settings, Costs()) as keep:

            def on_step(batch: Sequence[Slot], step_s: float) -> None:
                with taken.get_lock():
                    taken.value += 1
                keep(batch, step_s)
                ready.release()

            ready.release()
            make(subject, on_step=on_step)
            time.sleep(3600.0)

    process = spawn.Process(target=child)
    process.start()
    for _ in range(1 + int(at)):
        ready.acquire()
    time.sleep(at % 1 * step_s)
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
    step_s = (time.perf_counter() - began) / STEPS
    draw, lost, differences = Random(name), list[float](), list[float]()
    for number in range(kills):
        taken = kill(subject, settings, STEPS * (number + draw.random()) / kills, step_s)
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


def of_workers(found: Interruptions) -> dict[str, Figure]:
    """Lay out what workers of a whole service did when they were killed or asked to end."""
    return {
        "workers: steps lost a kill, mean": at_most(
            float(np.mean(found.lost)), LOST, "steps of 50"
        ),
        "workers: steps lost a kill, most": plain(max(found.lost), "steps of 50"),
        "workers: steps lost a SIGTERM, most": at_most(max(found.lost_handed), 0, "steps of 50"),
        "workers: SIGTERM until handed over, most": at_most(max(found.handed_s), HANDED_S, "s"),
        "workers: images that differ": at_most(found.different, 0, ""),
    }


def main(quick: bool = False, json: bool = False, only: str = "") -> None:
    """Measure what a kill costs, and what states do. Example: `python -m bench.resume --quick`."""
    torch.set_num_threads(1)  # a forked process would wait for the threads of its parent
    figures: dict[str, Figure] = {}
    for name, subject in subjects():
        if only in ("", name):
            with TemporaryDirectory() as folder:
                figures |= killed(name, subject, Path(folder), 4 if quick else 12)
                figures |= cost(name, subject, Path(folder), 4 if quick else 16)
    if only in ("", "workers"):
        with TemporaryDirectory() as folder:
            figures |= of_workers(interrupt(Path(folder), times=3 if quick else 8))
    raise SystemExit(finish("resume", figures, where=machine(), is_json=json))


if __name__ == "__main__":
    typer.run(main)
