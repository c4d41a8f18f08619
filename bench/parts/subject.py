"""Run one model by the stock pipeline and by the engine, for benchmarks of either."""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from bench.parts.report import Instant
from core.job import Job, JobRequest, JobStatus
from core.levels.approximation import Approximation
from core.model import Model
from core.placement import Placement, queue_of
from worker.diffusion.runner import JobInputs, Pixels
from worker.diffusion.stock import Module, Pipe, make_scheduler, unhook
from worker.engine.engine import Engine
from worker.engine.slot import JobImages
from worker.families.diffusion_runner import DiffusionRunner
from worker.pipeline.sample import UNetSample


def a_job(model: Model, number: int, *, steps: int, size: int | None = None) -> Job:
    """A job like any other: its own prompt and seed."""
    request = JobRequest(
        prompt=f"a red circle and {number} blue squares",
        model=model.name,
        width=size or model.default_size,
        height=size or model.default_size,
        steps=steps,
        guidance=model.default_guidance,
        seed=number,
    )
    return Job(
        id=f"job-{number}",
        tenant="bench",
        request=request,
        placement=Placement(queue=queue_of(model.name), model=model.name, level=f"{model.name}@0"),
        status=JobStatus.RUNNING,
        created_at=time.time(),
    )


def stock_pipeline(runner: DiffusionRunner) -> Pipe:
    """The stock pipeline on the very weights of a runner, with a scheduler of its own.

    Its decoder is its own too where the runner keeps one in float32: stock casts it every time. So
    are both models where they are hooked to kernels, which takes a host time whoever calls them.
    """
    own = runner.pipe.scheduler
    parts = {**runner.pipe.components}
    parts["scheduler"] = make_scheduler(type(own).__name__, own.config, {})
    if not runner.by_kernels.is_empty:
        parts |= {name: _unhooked(parts[name]) for name in (runner.architecture.part, "vae")}
    if parts["vae"].dtype != runner.dtype:
        parts["vae"] = copy.deepcopy(parts["vae"]).to(runner.dtype)
    pipe = type(runner.pipe)(**parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def _unhooked(model: Module) -> Module:
    copied = copy.deepcopy(model)
    unhook(copied)
    return copied


def make_stock(pipe: Pipe, *requests: JobRequest) -> None:
    """Make images the stock way, as a client of diffusers would: a fixed batch of look-alikes."""
    first = requests[0]
    pipe(
        [request.prompt for request in requests],
        width=first.width,
        height=first.height,
        num_inference_steps=first.steps,
        guidance_scale=first.guidance,
        generator=[torch.Generator().manual_seed(request.seed) for request in requests],
        output_type="np",
    )


class Watched:
    """A runner that counts forward passes and notes the first one of each seed."""

    def __init__(self, runner: DiffusionRunner) -> None:
        self.runner = runner
        self.model, self.decodes_freely = runner.model, runner.decodes_freely
        self.calls = 0  #: forward passes begun
        self.first: dict[int, int] = {}  #: seed -> number of its first pass
        self._seeds: dict[UNetSample, int] = {}

    def open(self, request: JobRequest, seed: int, brought: JobInputs | None = None) -> UNetSample:
        sample = self.runner.open(request, seed, brought)
        self._seeds[sample] = seed
        return sample

    def encoding(self, request: JobRequest) -> Callable[[], object] | None:
        return self.runner.encoding(request)

    def approximate(self, sample: UNetSample, approximation: Approximation) -> None:
        self.runner.approximate(sample, approximation)

    def forward(self, samples: Sequence[UNetSample]) -> list[torch.Tensor]:
        self.calls += 1
        for sample in samples:
            self.first.setdefault(self._seeds[sample], self.calls)
        return self.runner.forward(samples)

    def advance(self, samples: Sequence[UNetSample], predictions: Sequence[torch.Tensor]) -> None:
        self.runner.advance(samples, predictions)

    def preview(self, sample: UNetSample, request: JobRequest) -> Callable[[], Pixels] | None:
        return self.runner.preview(sample, request)

    def state_of(self, sample: UNetSample) -> Callable[[], bytes] | None:
        return self.runner.state_of(sample)

    def resume(self, sample: UNetSample, payload: bytes) -> int:
        return self.runner.resume(sample, payload)

    def decode(self, sample: UNetSample) -> Pixels:
        self._seeds.pop(sample)
        return self.runner.decode(sample)

    def trim(self) -> None:
        self.runner.trim()

    def close(self) -> None:
        self.runner.close()


@contextmanager
def running(runner: "DiffusionRunner | Watched", *, slots: int = 8) -> Iterator[Engine]:
    """An engine in its own thread, with one model."""
    engine = Engine(max_slots=slots, max_rows=2 * slots, slo_s=3600)
    engine.attach(runner)
    engine.start()
    try:
        yield engine
    finally:
        engine.close()


def keep_in_flight(engine: Engine, jobs: Sequence[Job], in_flight: int) -> list[JobImages]:
    """Make all jobs, never more than so many at a time."""
    made: list[JobImages] = []
    flying: list[Future[JobImages]] = []
    for job in jobs:
        if len(flying) == in_flight:
            made.append(flying.pop(0).result())
        flying.append(engine.add(job, None))
    return made + [future.result() for future in flying]


@contextmanager
def stepped(runner: DiffusionRunner, *, slots: int = 8) -> Iterator[Engine]:
    """An engine without a thread: CUDA graphs are replayed in the thread that captured them."""
    engine = Engine(max_slots=slots, max_rows=2 * slots, slo_s=3600)
    engine.attach(runner)
    try:
        yield engine
    finally:
        engine.close()


def make_by_steps(engine: Engine, jobs: Sequence[Job]) -> None:
    """Make the images of jobs that come at once, in this thread."""
    futures = [engine.add(job, None) for job in jobs]
    while not all(future.done() for future in futures):
        engine.step()
    for future in futures:
        future.result()


@dataclass(slots=True)
class Lap:
    """Moments at which a UNet was called."""

    moments: list[Instant] = field(default_factory=list)

    def steps(self) -> list[Instant]:
        """From one call to the next, within one image."""
        pairs = zip(self.moments, self.moments[1:], strict=False)
        return [after - before for before, after in pairs]


@contextmanager
def timed_calls(unet: Any) -> Iterator[Lap]:  # noqa: ANN401 - a module of diffusers
    """Note when a UNet is called."""
    lap = Lap()
    hook = unet.register_forward_pre_hook(lambda *_: lap.moments.append(Instant.now()))
    try:
        yield lap
    finally:
        hook.remove()
