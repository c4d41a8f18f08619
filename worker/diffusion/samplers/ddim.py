"""Step by predicting the image and adding noise again: as predicted (DDIM, TCD), or new (LCM)."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from worker.diffusion.samplers.stepper import Coefficients, Stepper, Table, over, times
from worker.diffusion.stock import Scheduler


@dataclass(frozen=True, slots=True)
class Ddim(Stepper):
    """`DDIMScheduler` with eta 0."""

    is_velocity: bool

    def table(self, scheduler: Scheduler, begin: int) -> Table:
        del begin
        jump = scheduler.config.num_train_timesteps // scheduler.num_inference_steps
        for time in scheduler.timesteps:
            alpha, after = alphas(scheduler, time, time - jump)
            direction = (1 - after - 0.0**2) ** 0.5
            yield 1.0, alpha**0.5, (1 - alpha) ** 0.5, after**0.5, direction

    def step(
        self, c: Coefficients, state: Tensor, prediction: Tensor, noise: Tensor
    ) -> Sequence[Tensor]:
        del noise
        alpha, sigma, after, direction = c
        sample = state[:, 0].to(prediction.dtype)
        clean = clean_of(sample, prediction, alpha, sigma, is_velocity=self.is_velocity)
        if self.is_velocity:
            prediction = times(prediction, alpha) + times(sample, sigma)
        return (times(clean, after) + times(prediction, direction),)


@dataclass(frozen=True, slots=True)
class Lcm(Stepper):
    """`LCMScheduler`."""

    is_velocity: bool
    is_stochastic: bool = True

    def table(self, scheduler: Scheduler, begin: int) -> Table:
        del begin
        times_after = [*scheduler.timesteps[1:], None]
        for time, after_time in zip(scheduler.timesteps, times_after, strict=True):
            skip, out = scheduler.get_scalings_for_boundary_condition_discrete(time)
            alpha, after = alphas(scheduler, time, time if after_time is None else after_time)
            again = (after.sqrt(), (1 - after).sqrt()) if after_time is not None else (1.0, 0.0)
            yield 1.0, alpha.sqrt(), (1 - alpha).sqrt(), out, skip, *again

    def draws(self, call: int, calls: int) -> bool:
        """Say yes, but at the end."""
        return call < calls - 1

    def step(
        self, c: Coefficients, state: Tensor, prediction: Tensor, noise: Tensor
    ) -> Sequence[Tensor]:
        alpha, sigma, out, skip, after, again = c
        sample = state[:, 0].to(prediction.dtype)
        clean = clean_of(sample, prediction, alpha, sigma, is_velocity=self.is_velocity)
        clean = times(clean, out) + times(sample, skip)
        return (times(clean, after) + times(noise, again),)


@dataclass(frozen=True, slots=True)
class Tcd(Ddim):
    """`TCDScheduler` with eta 0, as stock pipelines have it step: as DDIM, to the next timestep."""

    def table(self, scheduler: Scheduler, begin: int) -> Table:
        del begin
        products = scheduler.alphas_cumprod
        for time, after_time in zip(
            scheduler.timesteps, [*scheduler.timesteps[1:], 0], strict=True
        ):
            alpha, after = products[time], products[after_time]
            yield 1.0, alpha.sqrt(), (1 - alpha).sqrt(), after.sqrt(), (1 - after).sqrt()


def alphas(scheduler: Scheduler, time: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    """Give the share of the image in the latents at a timestep, and at the one after it."""
    products = scheduler.alphas_cumprod
    return products[time], products[after] if after >= 0 else scheduler.final_alpha_cumprod


def clean_of(
    sample: Tensor, prediction: Tensor, alpha: Tensor, sigma: Tensor, *, is_velocity: bool
) -> Tensor:
    """Predict the image without noise, of latents that keep their variance."""
    if is_velocity:
        return times(sample, alpha) - times(prediction, sigma)
    return over(sample - times(prediction, sigma), alpha)
