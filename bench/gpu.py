"""Benchmark the engine on a GPU against stock diffusers: SDXL size, 1024 pixels.

Stock diffusers and the engine take turns on the same random weights: one image at a time, eight
at a time, and with Poisson arrivals; as they are, and with the UNet compiled, stock's in one graph
and the engine's block by block. Every measurement starts and ends with the device idle.

    python -m bench.gpu                                  one GPU, about ten minutes a dtype
    python -m bench.gpu --compiled --mode reduce-overhead           the same with CUDA graphs
    python -m bench.gpu --device cpu --size tiny --pixels 32 --steps 3 --quick --backend eager
                                                         a dry run of the script, on any machine
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

import torch
import typer

from bench.parts.random_sdxl import SIZES, build
from bench.parts.report import Figure, finish, machine, median, percentile, plain
from bench.parts.subject import a_job, keep_in_flight, make_stock, running, stock_pipeline
from core.job import Job
from core.model import Model
from worker.diffusion.device import DTYPES, order_channels
from worker.diffusion.stock import Module, Pipe
from worker.families.sdxl import SdxlRunner

T = TypeVar("T")

IN_FLIGHT = 8

#: Rows of the batches that are compiled: one guided image up to eight.
BUCKETS = (2, 4, 8, 16)


class Subject:
    """One precision, compiled or not: the engine's runner and the stock pipeline."""

    def __init__(self, runner: SdxlRunner, *, steps: int, pixels: int) -> None:
        self.runner = runner
        self.pipe: Pipe = stock_pipeline(runner)
        self.steps = steps
        self.pixels = pixels
        self._number = 0

    def jobs(self, count: int) -> list[Job]:
        """New jobs, each with its own prompt and seed."""
        self._number += count
        first = self._number - count
        return [
            a_job(self.runner.model, number, steps=self.steps, size=self.pixels)
            for number in range(first, first + count)
        ]

    def time(self, call: Callable[[], object]) -> float:
        """Seconds of a call, with the device idle before and after."""
        self.settle()
        started = time.perf_counter()
        call()
        self.settle()
        return time.perf_counter() - started

    def settle(self) -> None:
        """Wait until the device is idle."""
        if self.runner.device.type == "cuda":
            torch.cuda.synchronize(self.runner.device)

    def compile(self, backend: str, mode: str | None) -> None:
        """Compile both; every batch size that is measured compiles in `warm_up`."""
        self.runner.compile(BUCKETS, backend=backend, mode=mode)
        stock: Module = torch.compile(self.pipe.unet, dynamic=False, backend=backend, mode=mode)
        if mode is not None:
            stock.register_forward_pre_hook(_begin_step)
        self.pipe.unet = stock

    def warm_up(self) -> None:
        """Run every batch size once: kernels are chosen and compiled on first use."""
        for count in (1, IN_FLIGHT):
            make_stock(self.pipe, *(job.request for job in self.jobs(count)))
        with running(self.runner, slots=IN_FLIGHT) as engine:
            for count in (1, 2, 4, 8):
                keep_in_flight(engine, self.jobs(count), count)


def _begin_step(*_: object) -> None:
    """Say that a step of CUDA graphs begins: once anybody does, as the engine, everybody must."""
    torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]


def in_flight(subject: Subject, rounds: int) -> dict[str, Figure]:
    """One image and eight images at a time, stock and engine in turn."""
    times: dict[str, list[float]] = {"stock 1": [], "stock 8": [], "engine 1": [], "engine 8": []}
    with running(subject.runner, slots=IN_FLIGHT) as engine:
        for _ in range(rounds):
            for count in (1, IN_FLIGHT):
                requests = [job.request for job in subject.jobs(count)]
                stock = partial(make_stock, subject.pipe, *requests)
                ours = partial(keep_in_flight, engine, subject.jobs(2 * count), count)
                times[f"stock {count}"].append(subject.time(stock))
                times[f"engine {count}"].append(subject.time(ours) / 2)
    seconds = {name: median(values) for name, values in times.items()}
    return {
        "stock, 1 at a time": plain(1 / seconds["stock 1"], "images/s"),
        "stock, fixed batch of 8": plain(8 / seconds["stock 8"], "images/s"),
        "engine, 1 in flight": plain(1 / seconds["engine 1"], "images/s"),
        "engine, 8 in flight": plain(8 / seconds["engine 8"], "images/s"),
        "time of one image, engine / stock": plain(
            seconds["engine 1"] / seconds["stock 1"], "ratio"
        ),
        "images/s, engine 8 / stock 1": plain(
            8 * seconds["stock 1"] / seconds["engine 8"], "ratio"
        ),
        "images/s, engine 8 / stock batch of 8": plain(
            seconds["stock 8"] / seconds["engine 8"], "ratio"
        ),
    }


def poisson(subject: Subject, count: int, rate: float) -> dict[str, Figure]:
    """Jobs at random moments: the engine admits at the next step, stock serves them in turn.

    Units: rate jobs/s
    """
    gaps = random.Random(0)
    offsets: list[float] = []
    for _ in range(count):
        offsets.append((offsets[-1] if offsets else 0.0) + gaps.expovariate(rate))
    with running(subject.runner, slots=IN_FLIGHT) as engine:
        ours = arrive(subject.jobs(count), offsets, partial(engine.add, deadline=None))
    with StockServer(subject.pipe) as server:
        stock = arrive(subject.jobs(count), offsets, server.add)
    subject.settle()
    return {
        f"{name}, Poisson {rate:.3g}/s, {label}": plain(percentile(latencies, share), "s")
        for name, latencies in (("stock", stock), ("engine", ours))
        for label, share in (("p50", 0.5), ("p95", 0.95))
    }


def arrive(
    jobs: Sequence[Job], offsets: Sequence[float], add: "Callable[[Job], Future[T]]"
) -> list[float]:
    """Add each job at its moment; return the seconds that each took."""
    started = time.perf_counter()
    done: dict[str, float] = {}
    futures = []
    for job, offset in zip(jobs, offsets, strict=True):
        time.sleep(max(0.0, started + offset - time.perf_counter()))
        futures.append(add(job))
        futures[-1].add_done_callback(partial(_note, done, job.id))
    for future in futures:
        future.result()
    return [done[job.id] - started - offset for job, offset in zip(jobs, offsets, strict=True)]


def _note(done: dict[str, float], name: str, _: object) -> None:
    done[name] = time.perf_counter()


class StockServer:
    """The stock pipeline behind a queue: one image at a time, in order of arrival."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self._queue: SimpleQueue[tuple[Job, Future[None]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "StockServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.put(None)
        self._thread.join()

    def add(self, job: Job) -> "Future[None]":
        """Queue a job."""
        future: Future[None] = Future()
        self._queue.put((job, future))
        return future

    def _serve(self) -> None:
        while (item := self._queue.get()) is not None:
            job, future = item
            try:
                make_stock(self.pipe, job.request)
                future.set_result(None)
            except Exception as error:
                future.set_exception(error)


def measure(subject: Subject, *, rounds: int, arrivals: int) -> dict[str, Figure]:
    """All figures of one precision, compiled or not."""
    started = time.perf_counter()
    subject.warm_up()
    figures = {"warm-up": plain(time.perf_counter() - started, "s")}
    figures |= in_flight(subject, rounds)
    for name, share in (("stock, 1 at a time", 0.8), ("engine, 8 in flight", 0.7)):
        figures |= poisson(subject, arrivals, share * figures[name].value)
    return figures


def main(
    quick: bool = typer.Option(False, help="One round, few arrivals."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
    device: str = typer.Option("cuda", help="`cpu` only for a dry run."),
    size: str = typer.Option("sdxl", help="`tiny` for a dry run."),
    dtype: str = typer.Option("", help="One of them; both half precisions otherwise."),
    compiled: bool | None = typer.Option(None, help="Only compiled, or only not."),
    backend: str = typer.Option("inductor", help="`eager` for a dry run: no kernels are made."),
    mode: str = typer.Option("", help="Of the compiler: `reduce-overhead` replays CUDA graphs."),
    steps: int = typer.Option(30),
    pixels: int = typer.Option(1024),
) -> None:
    """Measure the engine against stock diffusers on a GPU. Example: `python -m bench.gpu`."""
    torch.set_num_threads(1)
    figures: dict[str, Figure] = {}
    for name in [dtype] if dtype else ["bfloat16", "float16"]:
        for is_compiled in [False, True] if compiled is None else [compiled]:
            subject = make_subject(size, device, name, steps=steps, pixels=pixels)
            if is_compiled:
                subject.compile(backend, mode or None)
            found = measure(subject, rounds=1 if quick else 3, arrivals=6 if quick else 32)
            kind = f"{name}, {'compiled' if is_compiled else 'eager'}"
            figures |= {f"{kind}: {key}": figure for key, figure in found.items()}
            subject.runner.close()
            del subject
    what = torch.cuda.get_device_name() if device.startswith("cuda") else "CPU: a dry run"
    where = machine(f"torch {torch.__version__}", what, f"{size}, {pixels} px, {steps} steps")
    raise SystemExit(finish("gpu", figures, where=where, is_json=as_json))


def make_subject(size: str, device: str, dtype: str, *, steps: int, pixels: int) -> Subject:
    """Build the model anew, so that nothing compiled earlier is reused."""
    torch.compiler.reset()
    pipe = build(SIZES[size], device=device, dtype=DTYPES[dtype])
    model = Model(name="random", family="sdxl", default_guidance=5.0, default_size=pixels)
    runner = SdxlRunner(model, pipe, device=torch.device(device), dtype=DTYPES[dtype])
    order_channels(torch.device(device), pipe.unet, pipe.vae)
    return Subject(runner, steps=steps, pixels=pixels)


if __name__ == "__main__":
    typer.run(main)
