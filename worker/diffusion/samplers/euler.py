"""Step by Euler's method: plain, and with noise drawn anew."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from worker.diffusion.samplers.stepper import (
    Coefficients,
    Stepper,
    Table,
    over,
    times,
)
from worker.diffusion.stock import Scheduler


@dataclass(frozen=True, slots=True)
class Euler(Stepper):
    """`EulerDiscreteScheduler` without churn."""

    is_velocity: bool

    def table(self, scheduler: Scheduler, begin: int) -> Table:
        del begin
        for sigma, after in zip(scheduler.sigmas, scheduler.sigmas[1:], strict=False):
            scale = (sigma**2 + 1) ** 0.5
            yield scale, sigma, after - sigma, *clean_coefficients(sigma, self.is_velocity)

    def step(
        self, c: Coefficients, state: Tensor, prediction: Tensor, noise: Tensor
    ) -> Sequence[Tensor]:
        del noise
        sigma, dt, *clean = c
        sample = state[:, 0]
        derivative = (sample - clean_of(sample, prediction, clean)) / sigma
        return (sample + derivative * dt,)


@dataclass(frozen=True, slots=True)
class EulerAncestral(Stepper):
    """`EulerAncestralDiscreteScheduler`."""

    is_velocity: bool
    is_stochastic: bool = True  #: the last step too draws noise, and takes none of it

    def table(self, scheduler: Scheduler, begin: int) -> Table:
        del begin
        for sigma, after in zip(scheduler.sigmas, scheduler.sigmas[1:], strict=False):
            scale = (sigma**2 + 1) ** 0.5
            up = (after**2 * (sigma**2 - after**2) / sigma**2) ** 0.5
            down = (after**2 - up**2) ** 0.5
            yield scale, sigma, down - sigma, up, *clean_coefficients(sigma, self.is_velocity)

    def step(
        self, c: Coefficients, state: Tensor, prediction: Tensor, noise: Tensor
    ) -> Sequence[Tensor]:
        sigma, dt, up, *clean = c
        sample = state[:, 0]
        derivative = (sample - clean_of(sample, prediction, clean)) / sigma
        return (sample + derivative * dt + times(noise, up),)


def clean_coefficients(sigma: Tensor, is_velocity: bool) -> tuple[Tensor, ...]:
    """Say what `clean_of` multiplies and divides by at a noise level."""
    if is_velocity:
        return -sigma / (sigma**2 + 1) ** 0.5, sigma**2 + 1
    return (sigma,)


def clean_of(sample: Tensor, prediction: Tensor, c: Coefficients) -> Tensor:
    """Predict the image without noise, of latents whose noise was added to it."""
    if len(c) == 1:
        return sample - times(prediction, c[0])
    return times(prediction, c[0]) + over(sample, c[1])
