"""Benchmark latent parallelism: two ranks against one (SwiftDiffusion §4.3, Fig. 16).

A random model of SDXL's kind in two processes, each with one thread and a core of its own where
there are two. One process and both take turns, image by image; what is compared is wall time, as
waiting for each other is what this is about. CPU time says what is left of it on idle cores.

    python -m bench.latent_parallel --quick
"""

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import torch
import typer

from bench.parts.control_process import on_cores
from bench.parts.random_sdxl import MEDIUM, build
from bench.parts.report import Figure, at_least, at_most, finish, machine, median, plain
from core.job import JobRequest
from core.log import configure
from core.model import Model
from worker.diffusion.runner import Pixels
from worker.families.load import load
from worker.families.sdxl import SdxlRunner
from worker.parallel.rank_process import RankSpec
from worker.parallel.second_rank import SecondRank

SIDE = 128
SEED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one image took."""

    wall_s: float
    first_s: float  #: CPU time of the first rank
    second_s: float  #: CPU time of the second rank
    pixels: Pixels

    @property
    def longest_s(self) -> float:
        """CPU time of the rank that had more to do: the image takes no less."""
        return max(self.first_s, self.second_s)


def speed(folder: Path, steps: int, rounds: int) -> dict[str, Figure]:
    """Make the same image by one rank and by two, in turn."""
    model = Model(name="medium", family="sdxl", default_size=SIDE, max_size=SIDE)
    pipe = build(MEDIUM, device="cpu", dtype=torch.float32)
    pipe.save_pretrained(folder)
    one, two = (
        SdxlRunner(model, pipe, device=torch.device("cpu"), dtype=torch.float32) for _ in range(2)
    )
    spec = RankSpec(load=load, folder=folder, model=model, device="cpu", dtype="float32", threads=1)
    second = SecondRank(spec, "cpu")
    base, *others = sorted(os.sched_getaffinity(0))
    try:
        second.start()
        process = psutil.Process(second.pid)
        process.cpu_affinity(others or [base])
        two.share(second)
        with on_cores([base]):
            for runner in (one, two):
                make(runner, 2, process)  # warms up
            pairs = [(make(one, steps, process), make(two, steps, process)) for _ in range(rounds)]
        assert second.link is not None, "the second rank died: nothing was measured"
    finally:
        second.close()
    far = max(np.abs(a.pixels.astype(int) - b.pixels).max() for a, b in pairs)
    return {
        "cores": plain(1 + len(others), ""),
        "image, one rank": plain(median([a.wall_s for a, _ in pairs]), "s"),
        "image, two ranks": plain(median([b.wall_s for _, b in pairs]), "s"),
        "one / two": at_least(median([a.wall_s / b.wall_s for a, b in pairs]), 1.4, "ratio, wall"),
        "one / the longer of two": plain(
            median([a.first_s / b.longest_s for a, b in pairs]), "ratio, CPU time"
        ),
        "both / one": plain(
            median([(b.first_s + b.second_s) / a.first_s for a, b in pairs]), "ratio, CPU time"
        ),
        "pixels differ by": at_most(float(far), 1, "of 255"),
    }


def make(runner: SdxlRunner, steps: int, second: psutil.Process) -> Taken:
    """Make one image, from its request to its pixels."""
    begun = (time.perf_counter(), time.process_time(), _cpu_s(second))
    request = JobRequest(
        prompt="a red circle and two blue squares",
        model="medium",
        width=SIDE,
        height=SIDE,
        steps=steps,
        guidance=5.0,
        seed=SEED,
    )
    sample = runner.open(request, SEED)
    for _ in range(steps):
        runner.advance([sample], runner.forward([sample]))
    pixels = runner.decode(sample)
    return Taken(
        wall_s=time.perf_counter() - begun[0],
        first_s=time.process_time() - begun[1],
        second_s=_cpu_s(second) - begun[2],
        pixels=pixels,
    )


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main(
    quick: bool = typer.Option(False, help="Fewer rounds and steps, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure latent parallelism. Example: `python -m bench.latent_parallel --quick`."""
    configure("warning", is_json=False)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        figures = speed(Path(folder), 6 if quick else 10, 3 if quick else 7)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread a process")
    raise SystemExit(finish("latent_parallel", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
