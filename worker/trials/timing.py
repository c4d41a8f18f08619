"""Time the steps of a loaded model, and what an image takes beside them."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

from core.job import JobRequest
from core.model import Model
from worker.diffusion.runner import AnyRunner

#: A figure is the least of this many: whatever else a machine does can only add.
TRIES = 2
#: What takes so long is done once: what else a machine does weighs less.
LONG_S = 5.0

PROMPT = "a small red circle on the left and a large striped blue square"

Clock = Callable[[], float]  #: seconds, once the device has done what it was told
Part = Callable[[], object]  #: of a measurement: short, and done again if it was given up


def step_s(runner: AnyRunner, images: int, guidance: float, clock: Clock, *, tries: int) -> float:
    """Measure one step of a batch of several images."""
    request = request_of(runner.model, guidance, tries)
    samples = [runner.open(request, seed) for seed in range(images)]
    return _least(lambda: take_step(runner, samples), clock, tries)


def fixed_s(runner: AnyRunner, clock: Clock, *, tries: int) -> float:
    """Measure what an image costs beside its steps: reading the prompt, drawing noise, decoding."""
    numbers = count()
    return _least(lambda: make_around_steps(runner, next(numbers)), clock, tries)


def request_of(
    model: Model, guidance: float, tries: int = TRIES, prompt: str = PROMPT
) -> JobRequest:
    """Ask for an image of the model's own size, with steps enough for every try."""
    size = model.default_size
    return JobRequest(
        prompt=prompt,
        model=model.name,
        width=size,
        height=size,
        steps=max(model.default_steps, tries + 1),
        guidance=guidance,
        seed=0,
    )


def clock_of(device: str) -> Clock:
    """Choose the clock of a device: an accelerator is waited for before it is read."""
    if not device.startswith("cuda"):
        return time.perf_counter
    import torch

    def now() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return now


def least_of(
    once: Part, clock: Clock, is_over: Callable[[], bool] = lambda: False
) -> Generator[Part, None, float]:
    """Do it as often as it takes to know how long it takes (s); the first time warms up."""
    seconds: list[float] = []

    def timed() -> None:
        started = clock()
        once()
        seconds.append(clock() - started)

    yield timed
    while seconds[0] <= LONG_S and len(seconds) <= TRIES and not is_over():
        yield timed
    return min(seconds[1:] or seconds)


@contextmanager
def hooked(runner: AnyRunner, give_way: Callable[[], object]) -> Iterator[None]:
    """Call this before every layer of a model. Not of a compiled one: it would be compiled anew."""
    pipe = getattr(runner, "pipe", None)
    parts = pipe.components.values() if pipe is not None and not runner.model.is_compiled else ()
    with ExitStack() as hooks:
        for layer in _layers(parts):
            hooks.callback(layer.register_forward_pre_hook(lambda *_: _call(give_way)).remove)
        give_way()
        yield


def _call(give_way: Callable[[], object]) -> None:
    give_way()  # what a hook returns would go into the layer


def _layers(parts: Iterable[Any]) -> Iterator[Any]:
    for part in parts:
        if hasattr(part, "register_forward_pre_hook"):
            yield from (each for each in part.modules() if next(each.children(), None) is None)


def take_step(runner: AnyRunner, samples: Sequence[Any]) -> None:
    """Take one step of a batch."""
    runner.advance(samples, runner.forward(samples))


def make_around_steps(runner: AnyRunner, number: int) -> None:
    """Do what an image takes beside its steps: reading the prompt, drawing noise, decoding.

    Of other words every time: runners keep the encodings of the last prompts.
    """
    request = request_of(runner.model, runner.model.default_guidance, prompt=f"{PROMPT} {number}")
    runner.decode(runner.open(request, seed=0))


def _least(once: Callable[[], None], clock: Clock, tries: int) -> float:
    once()
    seconds = []
    for _ in range(tries):
        started = clock()
        once()
        seconds.append(clock() - started)
    return min(seconds)
