"""Trial runs: measure the cost of a model on this device where nobody knows it.

Steps are timed while a worker has no jobs, a part at a time: a job that comes has a part given up,
and what was measured stays. The times go to the scheduler with the worker's reports.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from catalog.profiled import read_profiled
from core.boards.cost import Cost
from core.levels.level import Level
from core.log import get_logger, log_errors
from core.model import Model
from worker.diffusion.runner import AnyRunner, is_out_of_memory
from worker.trials.timing import (
    TRIES,
    Clock,
    Part,
    hooked,
    least_of,
    make_around_steps,
    request_of,
    take_step,
)

log = get_logger(__name__)

#: Images that step together: a line through both is good enough until more is known.
BATCHES = (1, 4)
#: Then these, so that what they share is known as well as a profile knows it.
MORE = (2, 8)
#: Several images are timed only where a step of them is expected to take no longer.
MOST_S = 60.0


@dataclass(slots=True, kw_only=True)
class Times:
    """What was measured of one model so far."""

    steps: dict[int, float] = field(default_factory=dict)  #: images that share one -> seconds
    fixed_s: float | None = None
    is_full: bool = False  #: of more images there is no memory

    @property
    def cost(self) -> Cost | None:
        """What is known; None: not enough."""
        if self.fixed_s is None or not self.steps:
            return None
        steps = tuple((images, max(s, 1e-6)) for images, s in sorted(self.steps.items()))
        return Cost(fixed_s=self.fixed_s, steps=steps, is_measured=True)

    def wants(self, images: int) -> bool:
        """Tell whether steps of so many images are still to be timed."""
        if images == 1 or images in self.steps:
            return images not in self.steps
        return not self.is_full and images * self.steps.get(1, 0.0) <= MOST_S


class Trials:
    """Measures the models of one worker, each that nobody has measured."""

    def __init__(
        self,
        *,
        profiled: Iterable[str],
        clock: Clock,
        on_tried: Callable[[Model, Cost], object] = lambda model, cost: None,
        give_way: Callable[[], object] = lambda: None,
        fits: Callable[[Model, int], bool] = lambda model, images: True,
        is_current: Callable[[Model], bool] = lambda model: True,
    ) -> None:
        """Prepare; `on_tried` hears what a model costs here, and again when more is known.

        `give_way` is called at every layer of what is timed, and may raise; `fits` tells whether
        there is memory for so many images at a time; `is_current` whether a model is still what
        its folder holds: of one that is not, which leaves, nothing is learned.
        """
        self._profiled = frozenset(profiled)
        self._clock = clock
        self._on_tried = on_tried
        self._give_way = give_way
        self._fits = fits
        self._is_current = is_current
        self._times: dict[str, Times] = {}
        self._learned: set[str] = set()  #: from other workers
        self._observed: set[str] = set()  #: known by the steps of their jobs alone
        self._seen: dict[str, dict[int, list[float]]] = {}  #: by model and images: while it serves
        self.costs: Mapping[str, Cost] = {}  #: by model, of what was tried on such a device

    def parts(self, runner: AnyRunner) -> Iterator[Part]:
        """Give what there is to do to know a model better, a part at a time."""
        model = runner.model
        if self.is_learned(model.name) or not self._is_current(model):
            return
        times = self._times.setdefault(model.name, Times())
        for batches in (BATCHES, MORE):
            for images in filter(times.wants, batches):
                if images > 1 and not self._fits(model, images):
                    continue
                yield from self._timed_steps(runner, images, times)
                if model.name in self._learned:
                    return
            if times.fixed_s is None:
                yield from self._timed_rest(runner, times)
            self._tell(model, times)

    def learn(self, model: Model, cost: Cost) -> None:
        """Take over what another worker has measured, if that is more than is known here."""
        known = self.costs.get(model.name)
        is_tried = not self.untried([model.name]) and model.name not in self._observed
        if is_tried and model.name not in self._learned:
            return
        if known is None or len(cost.steps) > len(known.steps):
            self._observed.discard(model.name)
            self._learned.add(model.name)
            self._know(model, cost)

    def observe(self, model: Model, images: int, seconds: float) -> None:
        """Note a step that jobs have shared: a worker that is never idle learns by them."""
        if not self.untried([model.name]) and model.name not in self._observed:
            return
        if self._is_current(model):
            with log_errors(log, "step_not_noted", model=model.name):  # it has been taken
                self._note_step(model, images, seconds)

    def _note_step(self, model: Model, images: int, seconds: float) -> None:
        seen = self._seen.setdefault(model.name, {})
        times = seen.setdefault(images, [])
        if len(times) > TRIES:  # so many are known already
            return
        times.append(seconds)
        if len(times) > TRIES:
            self._observed.add(model.name)
            whole = sorted((n, max(min(s), 1e-6)) for n, s in seen.items() if len(s) > TRIES)
            self._know(model, Cost(steps=tuple(whole), is_measured=True))

    def is_learned(self, name: str) -> bool:
        """Tell whether another worker has measured a model, or a profile says."""
        return name in self._learned or name in self._profiled

    def forget(self, name: str) -> None:
        """Know nothing of a model any more: it is another one under the same name."""
        self._times.pop(name, None)
        self._seen.pop(name, None)
        self._learned.discard(name)
        self._observed.discard(name)
        self.costs = {known: cost for known, cost in self.costs.items() if known != name}

    def untried(self, names: Iterable[str]) -> tuple[str, ...]:
        """List the models of which nobody knows what they cost here."""
        return tuple(n for n in names if n not in self._profiled and n not in self.costs)

    def _tell(self, model: Model, times: Times) -> None:
        cost = times.cost
        if cost is None or cost == self.costs.get(model.name) or not self._is_current(model):
            return
        self._observed.discard(model.name)
        self._know(model, cost)
        seen = [images for images, _ in cost.steps]
        log.info("model_tried", model=model.name, step_s=round(cost.step_s(1), 4), images=seen)

    def _know(self, model: Model, cost: Cost) -> None:
        self.costs = {**self.costs, model.name: cost}
        self._on_tried(model, cost)

    def _timed_steps(self, runner: AnyRunner, images: int, times: Times) -> Iterator[Part]:
        request = request_of(runner.model, runner.model.default_guidance)
        samples: list[Any] = []

        def open_one() -> None:
            with hooked(runner, self._give_way):
                samples.append(runner.open(request, len(samples)))

        def once() -> None:
            try:
                with hooked(runner, self._give_way):
                    take_step(runner, samples)
            except (RuntimeError, MemoryError) as error:
                if images == 1 or not is_out_of_memory(error):
                    raise
                runner.trim()
                times.is_full = True

        yield from (open_one for _ in range(images))
        seconds = yield from least_of(once, self._clock, lambda: times.is_full)
        if not times.is_full:
            times.steps[images] = seconds

    def _timed_rest(self, runner: AnyRunner, times: Times) -> Iterator[Part]:
        number = count()

        def once() -> None:
            with hooked(runner, self._give_way):
                make_around_steps(runner, next(number))

        times.fixed_s = yield from least_of(once, self._clock)


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
