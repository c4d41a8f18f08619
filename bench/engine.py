"""Benchmark the engine against stock diffusers: step overhead at 1, throughput at 8 requests.

Stock pipeline and engine take turns in one process, on the same weights; every figure with a bar
but the last is a ratio of the two. A step lasts from one call of the UNet to the next, in both.

    python -m bench.engine --quick
"""

import time
from dataclasses import replace
from pathlib import Path

import msgspec
import torch
import typer

from bench.parts.report import Figure, Instant, at_least, at_most, finish, machine, median, plain
from bench.parts.subject import (
    Watched,
    a_job,
    keep_in_flight,
    make_stock,
    running,
    stock_pipeline,
    timed_calls,
)
from core.model import Model
from worker.families.diffusion_runner import DiffusionRunner
from worker.families.load import load

IN_FLIGHT = 8


def step_times(runner: DiffusionRunner, rounds: int, steps: int) -> dict[str, Figure]:
    """Time a denoising step with one request in flight, stock and engine in turn."""
    pipe = stock_pipeline(runner)
    images: list[tuple[float, float]] = []
    walls: list[tuple[float, float]] = []
    cpus: list[tuple[float, float]] = []
    with running(runner) as engine:
        for i in range(-1, rounds):
            job = a_job(runner.model, i + 1, steps=steps)
            begun = Instant.now()
            with timed_calls(runner.unet) as stock:
                make_stock(pipe, job.request)
            half = Instant.now()
            with timed_calls(runner.unet) as ours:
                engine.add(job, None).result()
            if i >= 0:  # the first round warms up
                images.append(((Instant.now() - half).wall_s, (half - begun).wall_s))
                pair = [lap.steps() for lap in (ours, stock)]
                walls.append(_medians([[s.wall_s for s in lap] for lap in pair]))
                cpus.append(_medians([[s.cpu_s for s in lap] for lap in pair]))
    return {
        "stock step": plain(1e3 * median([stock for _, stock in walls]), "ms"),
        "engine step, one in flight": plain(1e3 * median([ours for ours, _ in walls]), "ms"),
        "image, one in flight, engine / stock": at_most(
            median([a / b for a, b in images]), 1.03, "ratio, wall"
        ),
        "step, engine / stock": plain(median([a / b for a, b in walls]), "ratio, wall"),
        "step, engine / stock, CPU": plain(median([a / b for a, b in cpus]), "ratio, CPU time"),
    }


def _medians(pair: list[list[float]]) -> tuple[float, float]:
    return median(pair[0]), median(pair[1])


def throughput(runner: DiffusionRunner, rounds: int, steps: int) -> dict[str, Figure]:
    """Make images eight at a time by the engine and one by one by the stock pipeline, in turn."""
    pipe = stock_pipeline(runner)
    alone: list[Instant] = []
    together: list[Instant] = []
    with running(runner, slots=IN_FLIGHT) as engine:
        for i in range(rounds):
            jobs = [a_job(runner.model, 1000 * i + j, steps=steps) for j in range(2 * IN_FLIGHT)]
            started = Instant.now()
            for job in jobs[::4]:
                make_stock(pipe, job.request)
            half = Instant.now()
            keep_in_flight(engine, jobs, IN_FLIGHT)
            alone.append(_each(half - started, len(jobs[::4])))
            together.append(_each(Instant.now() - half, len(jobs)))
    wall = [a.wall_s / t.wall_s for a, t in zip(alone, together, strict=True)]
    cpu = [a.cpu_s / t.cpu_s for a, t in zip(alone, together, strict=True)]
    return {
        "stock, one by one": plain(1 / median([a.wall_s for a in alone]), "images/s"),
        "engine, 8 in flight": plain(1 / median([t.wall_s for t in together]), "images/s"),
        "images/s, engine / stock": at_least(median(wall), 1.5, "ratio, wall"),
        "images/s, engine / stock, CPU": plain(median(cpu), "ratio, CPU time"),
    }


def _each(total: Instant, count: int) -> Instant:
    return replace(total, wall_s=total.wall_s / count, cpu_s=total.cpu_s / count)


def join_delay(runner: DiffusionRunner, rounds: int) -> dict[str, Figure]:
    """Count forward passes from the arrival of a request, while 7 run, to its first one.

    The pass in progress on arrival is not counted: 1 means that the very next one has it.
    """
    watched, delays = Watched(runner), []
    with running(watched, slots=IN_FLIGHT) as engine:
        for i in range(rounds):
            seed = 1_000_000 + 10 * i
            jobs = [a_job(runner.model, seed + j, steps=12) for j in range(IN_FLIGHT)]
            flying = [engine.add(job, None) for job in jobs[1:]]
            while engine.stats().running < len(flying) and not any(f.done() for f in flying):
                time.sleep(1e-3)
            begun = watched.calls
            flying.append(engine.add(jobs[0], None))
            for future in flying:
                future.result()
            delays.append(watched.first[seed] - begun)
    return {"steps until a late request denoises, worst": at_most(max(delays), 1, "steps")}


def main(
    quick: bool = typer.Option(False, help="Fewer rounds, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
    model: Path = typer.Option(Path("zoo/weights/shapes-xl"), help="A model folder."),
    steps: int = typer.Option(20, help="Denoising steps of an image."),
) -> None:
    """Measure the engine against the stock pipeline. Example: `python -m bench.engine --quick`."""
    torch.set_num_threads(1)
    described = msgspec.json.decode((model / "atelier.json").read_bytes(), type=Model)
    runner = load(model, described, device="cpu", dtype="float32")
    assert isinstance(runner, DiffusionRunner)
    figures = step_times(runner, 6 if quick else 20, steps)
    figures |= throughput(runner, 3 if quick else 8, steps)
    figures |= join_delay(runner, 3 if quick else 10)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread", model.name)
    raise SystemExit(finish("engine", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
