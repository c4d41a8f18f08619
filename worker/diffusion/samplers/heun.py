"""Step by Heun's method, which calls the model twice a step, and keeps the first half of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from worker.diffusion.samplers.euler import clean_coefficients, clean_of
from worker.diffusion.samplers.stepper import Coefficients, Stepper, Table, times
from worker.diffusion.stock import Scheduler


@dataclass(frozen=True, slots=True)
class Heun(Stepper):
    """`HeunDiscreteScheduler`. Keeps the derivative and the latents of a step's first half."""

    is_velocity: bool
    num_kept = 2

    def table(self, scheduler: Scheduler, begin: int) -> Table:
        for call, (sigma, dt, is_second) in enumerate(_halves(scheduler, begin)):
            scale = (scheduler.sigmas[call] ** 2 + 1) ** 0.5
            yield scale, is_second, sigma, dt, *clean_coefficients(sigma, self.is_velocity)

    def step(
        self, c: Coefficients, state: Tensor, prediction: Tensor, noise: Tensor
    ) -> Sequence[Tensor]:
        del noise
        second, sigma, dt, *clean = c
        sample, derivative, first = state.to(prediction.dtype).unbind(1)
        slope = sample - clean_of(sample, prediction, clean)
        slope = (slope / sigma).to(slope.dtype)
        is_second = second > 0
        mean = torch.where(is_second, (derivative + slope) / 2, slope)
        start = torch.where(is_second, first, sample)
        return start + times(mean, dt), slope, sample


@dataclass(frozen=True, slots=True)
class FlowHeun(Stepper):
    """`FlowMatchHeunDiscreteScheduler`, likewise, in single precision."""

    num_kept = 2

    def table(self, scheduler: Scheduler, begin: int) -> Table:
        for sigma, dt, is_second in _halves(scheduler, begin):
            yield 1.0, is_second, sigma, dt

    def step(
        self, c: Coefficients, state: Tensor, prediction: Tensor, noise: Tensor
    ) -> Sequence[Tensor]:
        del noise
        second, sigma, dt = c
        sample, derivative, first = state.unbind(1)
        slope = (sample - (sample - times(prediction, sigma))) / sigma
        is_second = second > 0
        mean = torch.where(is_second, 0.5 * (derivative + slope), slope)
        start = torch.where(is_second, first, sample)
        return start + mean * dt, slope, sample


def _halves(scheduler: Scheduler, begin: int) -> Iterator[tuple[Tensor, Tensor, float]]:
    """List noise level and time difference of each call, and whether it is a second half."""
    sigmas = scheduler.sigmas
    for call in range(len(scheduler.timesteps)):
        if (call - begin) % 2:
            yield sigmas[call], sigmas[call] - sigmas[call - 1], 1.0
        else:
            yield sigmas[call], sigmas[call + 1] - sigmas[call], 0.0
