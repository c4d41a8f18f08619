"""Trial runs: measure the cost of a model on this device where no profile has it.

A worker that knows nothing of a model on its type of device loads it, times some steps, and tells
the scheduler with its reports; a model that nobody could try is given no work there.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path

import msgspec

from catalog.profiled import read_profiled
from core.boards.cost import Cost
from core.job import JobRequest
from core.levels.level import Level
from core.log import get_logger, log_errors
from core.model import Model
from worker.diffusion.runner import AnyRunner

log = get_logger(__name__)

#: Images that step together: a line through both is good enough until a profile says more.
BATCHES = (1, 4)
#: A figure is the least of this many: whatever else a machine does can only add.
TRIES = 2

PROMPT = "a small red circle on the left and a large striped blue square"

Clock = Callable[[], float]  #: seconds, once the device has done what it was told


class Trials:
    """Loads the models of one worker, and tries each that no profile knows."""

    def __init__(
        self,
        load: Callable[[Model], AnyRunner],
        *,
        profiled: Iterable[str],
        device: str,
        on_tried: Callable[[Model, Cost], object] = lambda model, cost: None,
    ) -> None:
        """Prepare; `on_tried` hears of every model what it costs here."""
        self._load = load
        self._profiled = frozenset(profiled)
        self._clock = clock_of(device)
        self._on_tried = on_tried
        self.costs: Mapping[str, Cost] = {}  #: by model, of what was tried here

    def load(self, model: Model) -> AnyRunner:
        """Load a model to serve it."""
        runner = self._load(model)
        if self.untried([model.name]):
            self._try(runner)
        return runner

    def run(self, models: Iterable[Model], *, memory_gib: float) -> None:
        """Try the models that no profile knows, one after another, and let go of them again."""
        for model in models:
            if model.size_gib > memory_gib or not self.untried([model.name]):
                continue
            with log_errors(log, "model_not_tried", model=model.name):
                runner = self._load(model)
                self._try(runner)
                runner.close()

    def untried(self, names: Iterable[str]) -> tuple[str, ...]:
        """List the models of which nobody knows what they cost here."""
        return tuple(n for n in names if n not in self._profiled and n not in self.costs)

    def _try(self, runner: AnyRunner) -> None:
        name = runner.model.name
        with log_errors(log, "model_not_tried", model=name):
            cost = cost_of(runner, self._clock)
            self.costs = {**self.costs, name: cost}
            self._on_tried(runner.model, cost)
            log.info("model_tried", model=name, step_s=round(cost.step_s(1), 4))


def cost_of(runner: AnyRunner, clock: Clock) -> Cost:
    """Time some steps of a loaded model, and what an image takes beside them."""
    guidance = runner.model.default_guidance
    times = [(n, step_s(runner, n, guidance, clock, tries=TRIES)) for n in BATCHES]
    steps = tuple((images, max(seconds, 1e-6)) for images, seconds in times)
    return Cost(fixed_s=fixed_s(runner, clock, tries=TRIES), steps=steps, is_measured=True)


def step_s(runner: AnyRunner, images: int, guidance: float, clock: Clock, *, tries: int) -> float:
    """Measure one step of a batch of several images."""
    request = request_of(runner.model, guidance, tries)
    samples = [runner.open(request, seed) for seed in range(images)]

    def once() -> None:
        runner.advance(samples, runner.forward(samples))

    return _least(once, clock, tries)


def fixed_s(runner: AnyRunner, clock: Clock, *, tries: int) -> float:
    """Measure what an image costs beside its steps: reading the prompt, drawing noise, decoding."""
    guidance = runner.model.default_guidance
    # Other words every time: runners keep the encodings of the last prompts.
    requests = (request_of(runner.model, guidance, tries, f"{PROMPT} {i}") for i in count())

    def once() -> None:
        runner.decode(runner.open(next(requests), seed=0))

    return _least(once, clock, tries)


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


def profiled(path: Path, device_type: str) -> frozenset[str]:
    """Name the models whose times `atelier profile` has measured on one type of device.

    Raises:
        ConfigurationError: the file is not a profile; the message names it.
    """
    levels = read_profiled(path, _CostProfile).tau.get(device_type, {})
    owners = {Level.read(name).model for name in levels}
    return frozenset(name for name in owners if Level(model=name).name in levels)


class _CostProfile(msgspec.Struct):
    """What a worker reads of a profile here: device type -> level -> seconds of an image."""

    tau: dict[str, dict[str, float]] = {}


def _least(once: Callable[[], None], clock: Clock, tries: int) -> float:
    once()
    seconds = []
    for _ in range(tries):
        started = clock()
        once()
        seconds.append(clock() - started)
    return min(seconds)
