"""Benchmark fairness of base workers that share one ControlNet worker at full load.

One ControlNet worker and two base workers, a process each, which make images without a pause: first
both two images at a time, then the first one image beside four of the second. Whoever asks for as
much or less makes its steps as fast as the other, and none takes much longer than the middle one.

    python -m bench.control_sharing --quick
"""

import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

import torch
import typer

from bench.parts.control_process import ControlProcess
from bench.parts.random_sdxl import TINY
from bench.parts.report import Figure, at_least, finish, machine, median, plain
from bench.parts.steered import Steered
from worker.control.client.remote import RemoteControlNets

#: Images that the base workers make at a time.
LOADS = {"two beside two": (2, 2), "one beside four": (1, 4)}
STEPS = 10

_spawn = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one base worker got done."""

    steps_per_s: float
    longest: float  #: step, in middle ones


class Base:
    """A base worker as a process, whose offers go to one ControlNet worker."""

    def __init__(
        self, folder: Path, taker: ControlProcess, begin: Barrier, images: int, seconds: float
    ) -> None:
        self._told, theirs = _spawn.Pipe()
        self._taker = taker
        self._process = _spawn.Process(
            target=_work, args=(folder, theirs, begin, images, seconds), daemon=True
        )
        self._process.start()
        self._share: Share | None = None
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def share(self) -> Share:
        """Wait for its end, and say what it got done."""
        self._thread.join()
        self._process.join()
        assert self._share is not None
        return self._share

    def _listen(self) -> None:
        while not isinstance(told := self._told.recv(), Share):
            self._taker.offer(told)
        self._share = told


def share(folder: Path, images: Sequence[int], seconds: float) -> list[Share]:
    """Let base workers share a ControlNet worker, each with so many images at a time."""
    begin = _spawn.Barrier(len(images))
    taker = ControlProcess(folder, os.sched_getaffinity(0))
    bases = [
        Base(folder / f"base{at}", taker, begin, count, seconds) for at, count in enumerate(images)
    ]
    shares = [base.share() for base in bases]
    taker.close()
    return shares


def measure(folder: Path, seconds: float) -> dict[str, Figure]:
    """Share under every load."""
    Steered(folder, steps=1, size=TINY)  # leaves its ControlNet there
    figures = {}
    for name, images in LOADS.items():
        shares = share(folder, images, seconds)
        rates = [each.steps_per_s for each in shares]
        for at, rate in enumerate(rates):
            figures[f"{name}: steps of base worker {at}"] = plain(rate, "/s")
        longest = max(each.longest for each in shares)
        figures[f"{name}: longest step"] = plain(longest, "of the middle one")
        figures[f"{name}: first / second"] = at_least(rates[0] / rates[1], 0.9, "ratio")
    return figures


def _work(folder: Path, told: Connection, begin: Barrier, images: int, seconds: float) -> None:
    torch.set_num_threads(1)
    folder.mkdir(exist_ok=True)
    subject = Steered(folder, steps=STEPS, size=TINY)
    remote = RemoteControlNets(told.send, arena_bytes=2**26, patience_s=60.0)
    subject.image_s(remote)  # the ControlNet is loaded
    begin.wait()
    taken: list[float] = []
    began = time.monotonic()
    while (passed_s := time.monotonic() - began) < seconds:
        taken += subject.image_s(remote, images=images)
    remote.close()
    told.send(Share(steps_per_s=len(taken) / passed_s, longest=max(taken) / median(taken)))


def main(
    quick: bool = typer.Option(False, help="Less time, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure fairness. Example: `python -m bench.control_sharing --quick`."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), 5.0 if quick else 30.0)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread a process")
    raise SystemExit(finish("control_sharing", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
