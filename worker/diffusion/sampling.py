"""Per-image sampler: a diffusers scheduler and random generator of its own.

A scheduler keeps state (history of a multistep method, position, noise level), so images never
share one: each gets a copy of a template, which costs a tenth of building it.
"""

import copy
import inspect
from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from core.errors import EngineError
from worker.diffusion.sampler_state import History, history_of
from worker.diffusion.stock import Pipe, Scheduler, make_scheduler

#: A schedule that depends on the number of steps alone.
_PLAIN: Mapping[str, object] = MappingProxyType({})


class Sampler:
    """The schedule of one image and where it stands.

    Timesteps and noise levels stay on the host, where schedulers index them: a step reads nothing
    from the device. Samplers that draw noise (and UniPC, for its coefficients) copy it there every
    step, as in the stock pipeline; that copy waits, the steps of the others do not.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        steps: int,
        generator: torch.Generator,
        schedule: Mapping[str, object] = _PLAIN,
    ) -> None:
        scheduler.set_timesteps(steps, **schedule)
        if hasattr(scheduler, "set_begin_index"):
            scheduler.set_begin_index(0)
        self.scheduler = scheduler
        self.timesteps: list[Tensor] = list(scheduler.timesteps)
        self._generator = generator
        self._step_kwargs = _step_kwargs(scheduler, generator)
        self.history = history_of(scheduler)  #: None: nobody goes on from its latents
        self.num_asked = steps  #: as a client counts them
        self.times: list[float] = scheduler.timesteps.float().tolist()  #: for the model
        self.position = 0  #: steps taken

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

    def scale(self, latents: Tensor) -> Tensor:
        """Scale latents as the model expects them at this timestep; flows take them as they are."""
        if not hasattr(self.scheduler, "scale_model_input"):
            return latents
        scaled: Tensor = self.scheduler.scale_model_input(latents, self.timesteps[self.position])
        return scaled

    def resume(
        self, history: History, steps: int, memory: Mapping[str, Tensor], like: Tensor
    ) -> None:
        """Begin after so many steps, as a client counts them, with what others have remembered.

        A sampler that draws noise first passes over what it would have drawn until here.
        Shapes: `like` is what the image would start from, [1, C, h, w].
        """
        calls = history.calls(steps)
        history.give(self.scheduler, memory)
        if history.draws:
            dtype = torch.float32 if history.draws == "float32" else like.dtype
            for _ in range(calls):
                torch.randn(like.shape, generator=self._generator, dtype=dtype)
        if hasattr(self.scheduler, "set_begin_index"):
            self.scheduler.set_begin_index(calls)
        self.position = calls

    def begin(self, stock: Pipe, strength: float) -> int:
        """Begin where a stock pipeline does that runs this share of the schedule.

        Returns the steps that are left, as a client counts them.
        """
        timesteps, steps = stock.get_timesteps(self.num_asked, strength, "cpu")
        self.position = self.num_steps - len(timesteps)
        return int(steps)

    def add_noise(self, latents: Tensor, noise: Tensor) -> Tensor:
        """Bring latents to the noise level that is reached; none is left after the last step.

        Shapes: [1, C, h, w] each.
        """
        if self.position == self.num_steps:
            return latents
        time = self.timesteps[self.position][None]
        if hasattr(self.scheduler, "scale_noise"):
            noisy: Tensor = self.scheduler.scale_noise(latents, time, noise)
        else:
            noisy = self.scheduler.add_noise(latents, noise, time)
        return noisy

    def advance(self, prediction: Tensor, latents: Tensor) -> Tensor:
        """Take one step. Shapes: [1, C, h, w] each."""
        latents = self.scheduler.step(
            prediction,
            self.timesteps[self.position],
            latents,
            return_dict=False,
            **self._step_kwargs,
        )[0]
        self.position += 1
        return latents


def _step_kwargs(scheduler: Scheduler, generator: torch.Generator) -> dict[str, object]:
    accepts_generator = "generator" in inspect.signature(scheduler.step).parameters
    return {"generator": generator} if accepts_generator else {}


class Samplers:
    """The samplers that a request may name, for one model."""

    def __init__(
        self, own: Scheduler, known: Mapping[str, tuple[str, Mapping[str, object]]]
    ) -> None:
        self._own = own
        self._known = known
        self._templates: dict[str | None, Scheduler] = {None: own}

    def open(
        self,
        name: str | None,
        steps: int,
        generator: torch.Generator,
        schedule: Mapping[str, object] = _PLAIN,
    ) -> Sampler:
        """Start a schedule. No name means the model's own sampler.

        `schedule`: what else the scheduler is told of it, such as a shift.

        Raises: EngineError if the sampler is unknown or cannot take so many steps.
        """
        if name not in self._templates:
            self._templates[name] = self._template(str(name))
        try:
            return Sampler(copy.deepcopy(self._templates[name]), steps, generator, schedule)
        except ValueError as error:
            raise EngineError(f"sampler {name or 'of the model'}: {error}") from error

    def _template(self, name: str) -> Scheduler:
        if name not in self._known:
            raise EngineError(f"sampler {name!r} is unknown; known: {', '.join(self._known)}")
        class_name, extra = self._known[name]
        return make_scheduler(class_name, self._own.config, extra)
