"""Time a model: load, step, and fixed cost before and after its steps.

On an accelerator by the clock on the wall; on a CPU by the time the calling thread ran, so that
others on the machine do not count.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch

from catalog.masking.costs import MaskingCosts
from core.levels.level import Level
from core.model import Model
from profiling.masks import masking_costs
from worker.diffusion.device import give_memory_back, parse_device
from worker.diffusion.runner import AnyRunner
from worker.engine.slowdown import StepTime
from worker.families.load import load
from worker.trials.timing import fixed_s, request_of, step_s

#: Images that step together.
BATCHES = (1, 2, 4, 8)

#: A figure is the least of this many: whatever else a machine does can only add.
TRIES = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTimes:
    """The times of one model."""

    #: Seconds to load it.
    load_s: float
    #: Of one step.
    steps: tuple[StepTime, ...]
    #: Seconds of an image beside its steps.
    fixed_s: float
    #: Of its weights.
    size_gib: float
    #: Of its blocks under masks; None where edits run in full.
    masking: MaskingCosts | None = None


def time_model(folder: Path, model: Model, *, device: str, dtype: str) -> ModelTimes:
    """Load a model as a worker does and measure it.

    Raises: BadWeights naming the file and the reason.
    """
    runner, load_s = timed_load(folder, model, device=device, dtype=dtype)
    return ModelTimes(
        load_s=load_s,
        steps=step_times(runner, device),
        fixed_s=fixed_s(runner, partial(_now, device), tries=TRIES),
        size_gib=size_gib(runner),
        masking=masking_costs(runner, request_of(model, max(model.default_guidance, 2.0), TRIES)),
    )


def timed_load(
    folder: Path,
    model: Model,
    *,
    device: str,
    dtype: str,
    tries: int = 2,
    load: Callable[..., AnyRunner] = load,
) -> tuple[AnyRunner, float]:
    """Load a model as a worker does; seconds with its files in the page cache."""
    seconds: list[float] = []
    while True:
        started = _now(device)
        runner = load(folder, model, device=device, dtype=dtype)
        seconds.append(_now(device) - started)
        if len(seconds) == tries:
            return runner, min(seconds)
        runner.close()
        del runner  # a device may have room for one of them
        give_memory_back(parse_device(device))


def step_times(runner: AnyRunner, device: str) -> tuple[StepTime, ...]:
    """Measure one step of batches of several sizes, with guidance and without."""
    guided = max(runner.model.default_guidance, 2.0)
    return tuple(
        StepTime(
            images=images,
            is_guided=scale > 1,
            seconds=step_s(runner, images, scale, partial(_now, device), tries=TRIES),
        )
        for scale in (guided, 1.0)
        for images in BATCHES
    )


def size_gib(runner: AnyRunner) -> float:
    """Add up the weights of a model, GiB."""
    modules = [
        part
        for part in cast(Any, runner).pipe.components.values()
        if isinstance(part, torch.nn.Module)
    ]
    tensors = [tensor for m in modules for tensor in (*m.parameters(), *m.buffers())]
    return float(sum(tensor.numel() * tensor.element_size() for tensor in tensors) / 2**30)


def tau_s(level: Level, model: Model, timed: ModelTimes, retrieval_s: float) -> float:
    """Add up the seconds of one image of default steps, alone on its device.

    Source: Argus §2.1: N - K of N steps are left; reading, decoding and, with K > 0, finding the
    neighbour come on top.
    """
    is_guided = model.default_guidance > 1
    step = next(t for t in timed.steps if t.images == 1 and t.is_guided == is_guided)
    found = retrieval_s if level.approximation.needs_latents else 0.0
    steps = model.default_steps * level.approximation.share_of_steps
    return timed.fixed_s + found + steps * step.seconds


def _now(device: str) -> float:
    """Read the clock once the device has done what it was told."""
    if not device.startswith("cuda"):
        return time.thread_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()
