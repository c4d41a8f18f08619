"""What does an image lose whose ControlNet worker dies, and what does each session leave behind?

Two ControlNet workers serve a queue, and the one that has the session is killed (-9) in each phase.
Claims: the image is the same; the session is open on the other worker within a second. After that,
many images one after another: what all processes hold stays the same.

    python -m bench.control_faults --quick
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGSTOP

import msgspec
import psutil
import torch
import typer
from celery import Celery
from diffusers import StableDiffusionXLControlNetPipeline

from bench.report import Figure, at_most, finish, machine, median, plain
from core.job import Control
from tests.control import ControlHouse, Footprint, footprint, some_conditions
from tests.control_faults import Loss, Outcome, Phase
from tests.jobs import a_job
from tests.models import save_sdxl
from tests.rig import Rig, a_rig
from tests.stock import difference, engine_images
from worker.control.offers import Offer, offer_by
from worker.control.remote import RemoteControlNets

WORKERS = ("c0", "c1")
READY_S = 120.0


class Service:
    """Two ControlNet workers on a queue, and a base model in this process."""

    def __init__(self, rig: Rig, house: ControlHouse) -> None:
        self.rig = rig
        self.house = house
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
                self.rig.start(name, "worker.main", "--control", **env)
        for name in WORKERS:
            self.rig.wait_until(lambda name=name: self._is_ready(name), READY_S)

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

    def worker_of(self, remote: RemoteControlNets) -> "psutil.Popen":
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


def lose(service: Service, phase: Phase, number: int) -> tuple[Outcome, float]:
    """Make an image whose worker is lost; say what came of it, and how far off it is."""
    house = service.house
    name = house.copy("edges", f"edges-{phase.name.lower()}-{number}")  # that nobody has loaded
    job = a_job(model=house.model.name, steps=6, controls=(Control(controlnet=name, image=""),))
    brought = some_conditions(1)
    with service.connected() as remote:
        lost = []

        def kill() -> None:
            lost.append(service.worker_of(remote)) if not lost else None
            lost[0].kill()
            lost[0].wait()

        def stop() -> None:
            lost.append(service.worker_of(remote))
            lost[0].send_signal(SIGSTOP)

        outcome = Loss(remote, phase, stop=stop, kill=kill).make(
            house.recorder(remote), job, brought
        )
        kill()
    service.start()
    return outcome, difference(outcome.image, house.stock_image(job.request, brought))


def reopened(service: Service, rounds: int) -> dict[str, Figure]:
    """Lose workers in every phase."""
    figures, differences = {}, []
    for phase in Phase:
        outcomes = []
        for number in range(rounds):
            outcome, differs = lose(service, phase, number)
            outcomes.append(outcome)
            differences.append(differs)
        back_s = [outcome.back_s for outcome in outcomes if outcome.back_s is not None]
        if back_s:
            name = f"open on another, lost {phase}"
            is_promised = phase is not Phase.HANGING
            figures[name] = (
                at_most(median(back_s), 1.0, "s") if is_promised else plain(median(back_s), "s")
            )
    figures["largest difference of an image"] = at_most(max(differences), 0.0, "")
    return figures


def soak(service: Service, images: int) -> dict[str, Figure]:
    """Make many images; compare what processes hold after a quarter of them and after all."""
    job = a_job(
        model=service.house.model.name, steps=2, controls=(Control(controlnet="edges", image=""),)
    )
    held: list[Footprint] = []
    with service.connected() as remote:
        recorder, began = service.house.recorder(remote), time.monotonic()
        for number in range(images + 1):
            if number in (images // 4, images):
                time.sleep(0.5)  # for threads that end
                held.append(footprint(*service.pids))
            engine_images(recorder, [(0, job)], inputs={job.id: some_conditions(1)})
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
        house = ControlHouse(folder, save_sdxl, StableDiffusionXLControlNetPipeline)
        with a_rig(folder / "rig", ATELIER_CONTROLNETS_DIR=str(folder)) as rig:
            service = Service(rig, house)
            service.start()
            figures = reopened(service, 1 if quick else 5) | soak(service, 200 if quick else 2000)
    raise SystemExit(finish("control_faults", figures, where=machine(), is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
