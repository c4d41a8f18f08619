"""Benchmark the engine on a GPU against stock diffusers: SDXL size, 1024 pixels.

Stock diffusers and the engine take turns on the same random weights: one image at a time, eight
at a time, and with Poisson arrivals; as they are, and with the UNet compiled, stock's in one graph
and the engine's block by block. Every measurement starts and ends with the device idle.

    python -m bench.gpu                                  one GPU, about ten minutes a dtype
    python -m bench.gpu --compiled --mode reduce-overhead           stock's graph as CUDA graphs
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

from bench.parts.place import Place
from bench.parts.report import Figure, finish, machine, median, percentile, plain
from bench.parts.subject import a_job, keep_in_flight, make_stock, running, stock_pipeline
from core.job import Job
from worker.diffusion.device import DTYPES
from worker.diffusion.stock import Module, Pipe
from worker.engine.engine import Engine

T = TypeVar("T")

IN_FLIGHT = 8

#: Rows of the batches that are compiled: one guided image up to eight.
BUCKETS = (2, 4, 8, 16)


class Subject:
    """One precision, compiled or not: the engine's runner and the stock pipeline."""

    def __init__(self, place: Place) -> None:
        torch.compiler.reset()  # nothing compiled earlier is reused
        self.place = place
        self.runner = place.runner()
        self.pipe: Pipe = stock_pipeline(self.runner)
        self._number = 0

    def jobs(self, count: int) -> list[Job]:
        """New jobs, each with its own prompt and seed."""
        self._number += count
        numbers = range(self._number - count, self._number)
        return [a_job(self.runner.model, at, steps=self.place.steps) for at in numbers]

    def compile(self, mode: str | None) -> None:
        """Compile both, stock in this mode; every measured batch size compiles in `warm_up`."""
        backend = self.place.backend
        self.runner.compile(BUCKETS, backend=backend)
        stock: Module = torch.compile(self.pipe.unet, dynamic=False, backend=backend, mode=mode)
        if mode is not None:
            stock.register_forward_pre_hook(_begin_step)
        self.pipe.unet = stock

    def warm_up(self, engine: Engine) -> None:
        """Run every batch size once: kernels are chosen and compiled on first use."""
        for count in (1, IN_FLIGHT):
            make_stock(self.pipe, *(job.request for job in self.jobs(count)))
        for count in (1, 2, 4, 8):
            keep_in_flight(engine, self.jobs(count), count)


def _begin_step(*_: object) -> None:
    """Say that a step of CUDA graphs begins: once anybody does, as the engine, everybody must."""
    torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]


def in_flight(subject: Subject, engine: Engine, rounds: int) -> dict[str, Figure]:
    """One image and eight images at a time, stock and engine in turn."""
    times: dict[str, list[float]] = {"stock 1": [], "stock 8": [], "engine 1": [], "engine 8": []}
    for _ in range(rounds):
        for count in (1, IN_FLIGHT):
            requests = [job.request for job in subject.jobs(count)]
            stock = partial(make_stock, subject.pipe, *requests)
            ours = partial(keep_in_flight, engine, subject.jobs(2 * count), count)
            times[f"stock {count}"].append(subject.place.seconds_of(stock))
            times[f"engine {count}"].append(subject.place.seconds_of(ours) / 2)
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


def poisson(subject: Subject, engine: Engine, count: int, rate: float) -> dict[str, Figure]:
    """Jobs at random moments: the engine admits at the next step, stock serves them in turn.

    Units: rate jobs/s
    """
    gaps = random.Random(0)
    offsets: list[float] = []
    for _ in range(count):
        offsets.append((offsets[-1] if offsets else 0.0) + gaps.expovariate(rate))
    ours = arrive(subject.jobs(count), offsets, partial(engine.add, deadline=None))
    with StockServer(subject.pipe) as server:
        stock = arrive(subject.jobs(count), offsets, server.add)
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
    # One engine for all: CUDA graphs are of the thread that has captured them.
    with running(subject.runner, slots=IN_FLIGHT) as engine:
        subject.warm_up(engine)
        figures = {"warm-up": plain(time.perf_counter() - started, "s")}
        figures |= in_flight(subject, engine, rounds)
        for name, share in (("stock, 1 at a time", 0.8), ("engine, 8 in flight", 0.7)):
            figures |= poisson(subject, engine, arrivals, share * figures[name].value)
    return figures


def main(
    quick: bool = typer.Option(False, help="One round, few arrivals."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
    device: str = typer.Option("cuda", help="`cpu` only for a dry run."),
    size: str = typer.Option("sdxl", help="`tiny` for a dry run."),
    dtype: str = typer.Option("", help="One of them; both half precisions otherwise."),
    compiled: bool | None = typer.Option(None, help="Only compiled, or only not."),
    backend: str = typer.Option("inductor", help="`eager` for a dry run: no kernels are made."),
    mode: str = typer.Option("", help="Stock's, such as `reduce-overhead`: CUDA graphs."),
    steps: int = typer.Option(30),
    pixels: int = typer.Option(1024),
) -> None:
    """Measure the engine against stock diffusers on a GPU. Example: `python -m bench.gpu`."""
    torch.set_num_threads(1)
    figures: dict[str, Figure] = {}
    for name in [dtype] if dtype else ["bfloat16", "float16"]:
        place = Place(
            device=torch.device(device),
            size=size,
            dtype=DTYPES[name],
            pixels=pixels,
            steps=steps,
            backend=backend,
        )
        for is_compiled in [False, True] if compiled is None else [compiled]:
            subject = Subject(place)
            if is_compiled:
                subject.compile(mode or None)
            found = measure(subject, rounds=1 if quick else 3, arrivals=6 if quick else 32)
            kind = f"{name}, {'compiled' if is_compiled else 'eager'}"
            figures |= {f"{kind}: {key}": figure for key, figure in found.items()}
            subject.runner.close()
            del subject
    where = machine(f"torch {torch.__version__}", str(place))
    raise SystemExit(finish("gpu", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
