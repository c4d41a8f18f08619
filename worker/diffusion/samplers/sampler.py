"""Per-image sampler: a diffusers scheduler and random generator of its own.

A scheduler knows the schedule of one image: each gets a copy of a template, which costs a tenth of
building it. What all rows of a batch do at a step is in `samplers`; where that knows nothing of a
scheduler, the image steps by the scheduler itself.
"""

import copy
import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.errors import EngineError
from core.family import Spacing
from worker.diffusion.samplers.history import History, history_of
from worker.diffusion.samplers.registry import stepper_of
from worker.diffusion.stock import Pipe, Scheduler, make_scheduler

#: A schedule that depends on the number of steps alone.
_PLAIN: Mapping[str, object] = MappingProxyType({})
#: Tables of coefficients that are remembered: a schedule each.
_REMEMBERED = 64

#: Coefficients of each call of the model, [calls, n].
Table = NDArray[np.float32]


class Sampler:
    """The schedule of one image and where it stands.

    Timesteps, noise levels and coefficients stay on the host: a step reads nothing from the device.
    Samplers that draw noise copy it there every step, as in the stock pipeline; that copy waits,
    the steps of the others do not.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        steps: int,
        generator: torch.Generator,
        schedule: Mapping[str, object] = _PLAIN,
        remember: "Callable[[int, Callable[[], Table]], Table]" = lambda begin, make: make(),
        eta: float = 0.0,
    ) -> None:
        """Begin a schedule; `remember` knows the tables of equal ones, by where they begin.

        `eta`: the share of the noise that is drawn anew at each step, where a scheduler asks.
        """
        scheduler.set_timesteps(None if "sigmas" in schedule else steps, **schedule)
        if hasattr(scheduler, "set_begin_index"):
            scheduler.set_begin_index(0)
        self.scheduler = scheduler
        self.timesteps: list[Tensor] = list(scheduler.timesteps)
        self.generator = generator
        self._step_kwargs = _step_kwargs(scheduler, generator, eta)
        self._remember = remember
        #: None: it steps alone, by diffusers.
        self.stepper = stepper_of(scheduler) if not eta else None
        self.history = history_of(scheduler)  #: None: nobody goes on from its latents
        self.num_asked = steps  #: as a client counts them
        self.times: list[float] = scheduler.timesteps.float().tolist()  #: for the model
        self.position = 0  #: steps taken
        self.kept: Sequence[Tensor] = ()  #: what the stepper has to know at first
        self._begin = 0  #: call of the model that it begins with
        self._table: Table | None = None
        self._made: tuple[int, Tensor] | None = None  #: drawn or stepped, at which position

    @property
    def num_steps(self) -> int:
        """Calls of the model; methods of second order take more than the client asked for."""
        return len(self.times)

    @property
    def time(self) -> float:
        """The timestep of the next call."""
        return self.times[self.position]

    @property
    def noise_level(self) -> Tensor | float:
        """Standard deviation of the noise to start from: 1 in samplers of flows."""
        level: Tensor | float = getattr(self.scheduler, "init_noise_sigma", 1.0)
        return level

    @property
    def table(self) -> Table:
        """Coefficients of the stepper at each call; first what the model's input is divided by."""
        if self._table is None:
            self._table = self._remember(self._begin, self._make_table)
        return self._table

    @property
    def input_scale(self) -> float:
        """What the stepper has the model's input divided by at the next call."""
        return float(self.table[self.position, 0]) if self.stepper is not None else 1.0

    def scale(self, latents: Tensor) -> Tensor:
        """Scale latents as the model expects them at this timestep: always a copy.

        Shapes: [1, C, h, w].
        """
        if self.stepper is not None:
            return latents / self.input_scale
        if not hasattr(self.scheduler, "scale_model_input"):
            return latents.clone()
        scaled: Tensor = self.scheduler.scale_model_input(latents, self.timesteps[self.position])
        return scaled.clone() if scaled is latents else scaled

    def resume(
        self, history: History, steps: int, memory: Mapping[str, Tensor], like: Tensor
    ) -> None:
        """Begin after so many steps, as a client counts them, with what others have remembered.

        A sampler that draws noise first passes over what it would have drawn until here.
        Shapes: `like` is what the image would start from, [1, C, h, w].
        """
        calls = history.calls(steps)
        if self.stepper is None:
            history.give(self.scheduler, memory)
        else:
            names = self.stepper.names
            self.kept = [memory.get(name, torch.zeros_like(like)) for name in names]
        if history.draws:
            for _ in range(calls):
                self._draw(like)
        if hasattr(self.scheduler, "set_begin_index"):
            self.scheduler.set_begin_index(calls)
        self.position = calls

    def memory(self, history: History, steps: int, kept: Sequence[Tensor]) -> dict[str, Tensor]:
        """Name what it remembers after so many steps: what was `kept` for it, and its counts."""
        if self.stepper is None:
            return history.read(self.scheduler, steps)
        counts = self.stepper.counts(self.scheduler, self.position)
        named = dict(zip(self.stepper.names, kept, strict=False))
        named |= {name: torch.tensor(count) for name, count in counts.items()}
        return {name: named[name] for name in history.names(self.scheduler, steps)}

    def begin(self, stock: Pipe, strength: float) -> int:
        """Begin where a stock pipeline does that runs this share of the schedule.

        Returns the steps that are left, as a client counts them.
        """
        timesteps, steps = stock.get_timesteps(self.num_asked, strength, "cpu")
        self.position = self._begin = self.num_steps - len(timesteps)
        return int(steps)

    def add_noise(self, latents: Tensor, noise: Tensor, position: int) -> Tensor:
        """Bring latents to the noise level before a call; none is left after the last one.

        Shapes: [1, C, h, w] each.
        """
        if position == self.num_steps:
            return latents
        time = self.timesteps[position][None]
        if self.stepper is not None and hasattr(self.scheduler, "_step_index"):
            self.scheduler._step_index = position
        if hasattr(self.scheduler, "scale_noise"):
            noisy: Tensor = self.scheduler.scale_noise(latents, time, noise)
        else:
            noisy = self.scheduler.add_noise(latents, noise, time)
        return noisy

    def noise(self, like: Tensor) -> Tensor | None:
        """Draw the noise of this step, once however often it is tried; None: it draws none.

        Shapes: [1, C, h, w], on the host.
        """
        if self.stepper is None or not self.stepper.draws(self.position, self.num_steps):
            return None
        return self._once(lambda: self._draw(like))

    def step_alone(self, prediction: Tensor, latents: Tensor) -> Tensor:
        """Take a step by diffusers, once however often it is tried. Shapes: [1, C, h, w] each."""

        def step() -> Tensor:
            stepped: Tensor = self.scheduler.step(
                prediction,
                self.timesteps[self.position],
                latents,
                return_dict=False,
                **self._step_kwargs,
            )[0]
            return stepped

        return self._once(step)

    def advance(self) -> None:
        """Stand at the next call."""
        self.position += 1
        self._made = None

    def stand_at(self, position: int) -> None:
        """Stand at any call, with what it remembers as it is."""
        self.position = position
        self._made = None

    def _once(self, make: Callable[[], Tensor]) -> Tensor:
        if self._made is None or self._made[0] != self.position:
            self._made = (self.position, make())
        return self._made[1]

    def _draw(self, like: Tensor) -> Tensor:
        is_single = self.history is not None and self.history.draws == "float32"
        dtype = torch.float32 if is_single else like.dtype
        return torch.randn(like.shape, generator=self.generator, dtype=dtype)

    def _make_table(self) -> Table:
        assert self.stepper is not None
        rows = self.stepper.table(self.scheduler, self._begin)
        return np.array([[float(number) for number in row] for row in rows], dtype=np.float32)


def _step_kwargs(scheduler: Scheduler, generator: torch.Generator, eta: float) -> dict[str, object]:
    """Give what stock pipelines give at each step, as far as a scheduler takes it."""
    taken = inspect.signature(scheduler.step).parameters
    given = {"generator": generator, "eta": eta}
    return {name: value for name, value in given.items() if name in taken}


class Samplers:
    """The samplers that a request may name, for one model."""

    def __init__(
        self, own: Scheduler, known: Mapping[str, tuple[str, Mapping[str, object]]]
    ) -> None:
        self._own = own
        self._known = known
        self._templates: dict[tuple[str | None, Spacing | None], Scheduler] = {(None, None): own}
        self._tables: OrderedDict[tuple[object, ...], Table] = OrderedDict()

    def open(
        self,
        name: str | None,
        steps: int,
        generator: torch.Generator,
        schedule: Mapping[str, object] = _PLAIN,
        *,
        spacing: Spacing | None = None,
        eta: float = 0.0,
    ) -> Sampler:
        """Start a schedule. No name means the model's own sampler.

        `schedule`: what else the scheduler is told of it, such as a shift; `spacing` of its noise
        levels, None: its own; `eta`: as of a sampler.

        Raises: EngineError if the sampler is unknown or cannot take so many steps.
        """
        kind = (name, spacing)
        if kind not in self._templates:
            self._templates[kind] = self._template(str(name), spacing)
        key = (*kind, steps, *((what, np.asarray(how).tobytes()) for what, how in schedule.items()))
        remember = partial(self._remember, key)
        try:
            scheduler = copy.deepcopy(self._templates[kind])
            return Sampler(scheduler, steps, generator, schedule, remember, eta)
        except ValueError as error:
            raise EngineError(f"sampler {name or 'of the model'}: {error}") from error

    def _remember(self, key: tuple[object, ...], begin: int, make: Callable[[], Table]) -> Table:
        """Give the table of a schedule, made once for all that are equal."""
        if (*key, begin) not in self._tables:
            self._tables[*key, begin] = make()
        self._tables.move_to_end((*key, begin))
        if len(self._tables) > _REMEMBERED:
            self._tables.popitem(last=False)
        return self._tables[*key, begin]

    def _template(self, name: str, spacing: Spacing | None) -> Scheduler:
        if name not in self._known:
            raise EngineError(f"sampler {name!r} is unknown; known: {', '.join(self._known)}")
        class_name, extra = self._known[name]
        if spacing is not None:
            extra = {**extra, **{f"use_{each}_sigmas": each is spacing for each in Spacing}}
        return make_scheduler(class_name, self._own.config, extra)
