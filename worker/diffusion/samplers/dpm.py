"""Step by DPM-Solver++ of second order, plain and stochastic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from worker.diffusion.samplers.ddim import clean_of
from worker.diffusion.samplers.stepper import (
    Coefficients,
    Number,
    Stepper,
    Table,
    is_velocity,
    times,
)
from worker.diffusion.stock import Scheduler


@dataclass(frozen=True, slots=True)
class Dpm(Stepper):
    """`DPMSolverMultistepScheduler`, by midpoints. Keeps the image predicted last."""

    is_velocity: bool
    is_stochastic: bool = False
    num_kept = 1
    names = ("model_outputs.1",)

    def table(self, scheduler: Scheduler, begin: int) -> Table:
        levels = [alpha_sigma(scheduler, sigma) for sigma in scheduler.sigmas]
        lambdas = [torch.log(alpha) - torch.log(sigma) for alpha, sigma in levels]
        for call in range(len(scheduler.timesteps)):
            (alpha, sigma), (alpha_t, sigma_t) = levels[call], levels[call + 1]
            h = lambdas[call + 1] - lambdas[call]
            slope: Number = 0.0
            half: Number = 0.0
            noise: Number = 0.0
            image = -(alpha_t * (torch.exp(-h) - 1.0))
            if self.is_stochastic:
                image = alpha_t * (1 - torch.exp(-2.0 * h))
            if call > begin and not _is_first_order(scheduler, call):
                slope = 1.0 / ((lambdas[call] - lambdas[call - 1]) / h)
                half = 0.5 * image
            keep = sigma_t / sigma
            if self.is_stochastic:
                keep = sigma_t / sigma * torch.exp(-h)
                noise = sigma_t * torch.sqrt(1.0 - torch.exp(-2 * h))
            yield 1.0, alpha, sigma, keep, image, slope, half, noise

    def counts(self, scheduler: Scheduler, calls: int) -> Mapping[str, int]:
        return {"lower_order_nums": min(calls, scheduler.config.solver_order)}

    def step(
        self, c: Coefficients, state: Tensor, prediction: Tensor, noise: Tensor
    ) -> Sequence[Tensor]:
        alpha, sigma, keep, image, slope, half, fresh = c
        sample, before = state.to(prediction.dtype).unbind(1)
        clean = clean_of(sample, prediction, alpha, sigma, is_velocity=self.is_velocity)
        turn = times(clean - before, slope)
        after = state[:, 0] * keep + times(clean, image) + times(turn, half)
        return after + noise * fresh if self.is_stochastic else after, clean


def dpm(scheduler: Scheduler) -> Dpm | None:
    """Find the stepper; None: of another order or solver."""
    config, velocity = scheduler.config, is_velocity(scheduler)
    is_stochastic = {"dpmsolver++": False, "sde-dpmsolver++": True}.get(config.algorithm_type)
    if velocity is None or is_stochastic is None or config.variance_type:
        return None
    if config.thresholding or config.solver_order != 2 or config.solver_type != "midpoint":
        return None
    return Dpm(velocity, is_stochastic)


def alpha_sigma(scheduler: Scheduler, sigma: Tensor) -> tuple[Tensor, Tensor]:
    """Give the shares of image and noise in latents that keep their variance."""
    if scheduler.config.use_flow_sigmas:
        return 1 - sigma, sigma
    alpha = 1 / ((sigma**2 + 1) ** 0.5)
    return alpha, sigma * alpha


def _is_first_order(scheduler: Scheduler, call: int) -> bool:
    config, calls = scheduler.config, len(scheduler.timesteps)
    if call < calls - 1:
        return False
    is_short = config.lower_order_final and calls < 15
    return bool(config.euler_at_final or is_short or config.final_sigmas_type == "zero")
