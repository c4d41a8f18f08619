"""Benchmark ControlNet worker failures: same image, fast reconnect, no leaks.

Two ControlNet workers serve a queue, and the one that has the session is killed (-9) in each phase.
Claims: the image is the same; the session is open on the other worker within a second. After that,
many images one after another: what all processes hold stays the same.

    python -m bench.control_faults --quick
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from signal import SIGSTOP

import msgspec
import numpy as np
import psutil
import torch
import typer
from celery import Celery
from numpy.typing import NDArray

from bench.parts.random_sdxl import TINY
from bench.parts.report import Figure, at_most, finish, machine, median, plain
from bench.parts.steered import SIDE, Steered
from bench.parts.steered_image import NAME
from bench.parts.subject import a_job
from core.job import Job
from tests.control_faults import Loss, Outcome, Phase
from tests.footprint import Footprint, footprint
from tests.rig import Rig, a_rig
from worker.control.client.remote import RemoteControlNets
from worker.control.offers import Offer, offer_by
from worker.engine.engine import Engine

WORKERS = ("c0", "c1")
READY_S = 120.0


class Service:
    """Two ControlNet workers on a queue, and a base model in this process."""

    def __init__(self, rig: Rig, subject: Steered, folder: Path) -> None:
        """Prepare; ControlNets lie in the folder."""
        self.rig = rig
        self.subject = subject
        self.folder = folder
        self._celery = Celery("bench", broker=rig.redis.url)
        self._redis = rig.client()
        self._ready = dict.fromkeys(WORKERS, 0)

    def start(self) -> None:
        """Start whichever worker does not run, and return once all serve."""
        for name in WORKERS:
            process = self.rig.processes.get(name)
            if process is None or process.poll() is not None:
                self._ready[name] += 1
                env = {"ATELIER_WORKER_NAME": f"{name}@bench"}
                self.rig.start(name, "run.worker", "--control", **env)
        for name in WORKERS:
            self.rig.wait_until(partial(self._is_ready, name), READY_S)

    @contextmanager
    def connected(self) -> Iterator[RemoteControlNets]:
        """Open the side of a base worker, at a port of its own."""
        send = offer_by(self._celery, self._redis)

        def offer(offer: Offer) -> None:  # by TCP: the kernel says who has connected
            send(msgspec.structs.replace(offer, endpoints=offer.endpoints[-1:]))

        remote = RemoteControlNets(offer, arena_bytes=2**24, patience_s=60.0, host="127.0.0.1")
        try:
            yield remote
        finally:
            remote.close()

    def job(self, controlnet: str) -> Job:
        """Ask for an image that a ControlNet steers."""
        subject = self.subject
        job = a_job(subject.runner.model, 0, steps=subject.steps, size=SIDE)
        return replace(job, request=subject.request(controlnet))

    def image(self) -> NDArray[np.int64]:
        """Make the image in this process alone."""
        self.subject.ask(self.subject.here)
        engine = an_engine(self.subject)
        future = engine.add(self.job(NAME), None, self.subject.brought)
        while not future.done():
            engine.step()
        return future.result().images[0].astype(int)

    def worker_of(self, remote: RemoteControlNets) -> "subprocess.Popen[bytes]":
        """Say which worker has a session with a base worker."""
        port = int(remote._endpoints[-1].rpartition(":")[2])
        for name in WORKERS:
            process = self.rig.processes[name]
            connections = psutil.Process(process.pid).net_connections("tcp")
            if any(each.raddr and each.raddr.port == port for each in connections):
                return process
        raise RuntimeError("no worker has connected")

    @property
    def pids(self) -> list[int]:
        return [self.rig.processes[name].pid for name in WORKERS]

    def _is_ready(self, name: str) -> bool:
        log = (self.rig.folder / f"{name}.log").read_bytes()
        return log.count(b" ready.") == self._ready[name]


def an_engine(subject: Steered) -> Engine:
    """Start an engine that makes images with the subject's model."""
    engine = Engine(max_slots=8, max_rows=16, slo_s=60.0)
    engine.attach(subject.runner)
    return engine


def lose(service: Service, phase: Phase, number: int) -> Outcome:
    """Make an image whose worker is lost."""
    subject = service.subject
    name = NAME
    if phase is Phase.OPENING:
        name += f"-{number}"  # that no worker has in memory
        shutil.copytree(service.folder / NAME, service.folder / name)
    lost: list[subprocess.Popen[bytes]] = []

    def stop() -> None:
        lost.append(service.worker_of(remote))
        lost[0].send_signal(SIGSTOP)

    def kill() -> None:
        process = lost[0] if lost else service.worker_of(remote)
        process.kill()
        process.wait()

    with service.connected() as remote:
        subject.ask(remote)
        loss = Loss(remote, phase, stop=stop, kill=kill)
        outcome = loss.make(an_engine(subject), service.job(name), subject.brought)
        if phase is Phase.HANGING:
            kill()
    service.start()
    return outcome


def reopened(service: Service, rounds: int) -> dict[str, Figure]:
    """Lose workers in every phase."""
    expected = service.image()
    figures: dict[str, Figure] = {}
    differences = []
    for phase in Phase:
        outcomes = [lose(service, phase, number) for number in range(rounds)]
        differences += [np.abs(each.image.astype(int) - expected).max() for each in outcomes]
        back_s = [outcome.back_s for outcome in outcomes if outcome.back_s is not None]
        if back_s:
            middle = median(back_s)
            is_hung = phase is Phase.HANGING
            figures[f"open on another, lost {phase}"] = (
                plain(middle, "s") if is_hung else at_most(middle, 1.0, "s")
            )
    figures["largest difference of an image"] = at_most(float(max(differences)), 0.0, "of 255")
    return figures


def soak(service: Service, images: int) -> dict[str, Figure]:
    """Make many images; compare what processes hold after a quarter of them and after all."""
    subject = service.subject
    subject.steps = 2
    held: list[Footprint] = []
    with service.connected() as remote:
        subject.ask(remote)
        engine, began = an_engine(subject), time.monotonic()
        for number in range(images + 1):
            if number in (images // 4, images):
                time.sleep(0.5)  # for threads that end
                held.append(footprint(*service.pids))
            future = engine.add(service.job(NAME), None, subject.brought)
            while not future.done():
                engine.step()
        seconds, left = time.monotonic() - began, len(remote._sessions)
    grown = held[1] - held[0]
    return {
        "images one after another": plain(images, ""),
        "an image": plain(seconds / images * 1e3, "ms"),
        "memory that all hold": plain(held[1].mib, "MiB"),
        "grown since the first quarter": at_most(grown.mib, 16.0, "MiB"),
        "open files since then": at_most(grown.files, 4, ""),
        "threads since then": at_most(grown.threads, 4, ""),
        "sessions left": at_most(left, 0, ""),
    }


def main(
    quick: bool = typer.Option(False, help="One loss in each phase, 200 images."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Lose ControlNet workers. Example: `python -m bench.control_faults --quick`."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="atelier-control-") as name:
        folder = Path(name)
        subject = Steered(folder, steps=6, size=TINY)
        with a_rig(folder / "rig", ATELIER_CONTROLNETS_DIR=name) as rig:
            service = Service(rig, subject, folder)
            service.start()
            figures = reopened(service, 1 if quick else 5) | soak(service, 200 if quick else 2000)
    raise SystemExit(finish("control_faults", figures, where=machine(), is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
