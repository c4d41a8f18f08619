"""Step by PNDM's linear multistep method: predictions of up to four steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from worker.diffusion.samplers.ddim import alphas
from worker.diffusion.samplers.stepper import Coefficients, Stepper, Table, over, times
from worker.diffusion.stock import Scheduler

#: Weights of the newest prediction and those before it, and what their sum is multiplied and
#: divided by: at the first call of the model, the second, and so on.
WEIGHTS = (
    (1.0, 0.0, 0.0, 0.0, 1.0, 1.0),
    (1.0, -1.0, 0.0, 0.0, 1.0, 2.0),
    (3.0, 1.0, 0.0, 0.0, 1.0, 2.0),
    (23.0, 16.0, 5.0, 0.0, 1.0, 12.0),
    (55.0, 59.0, 37.0, 9.0, 1 / 24, 1.0),
)


@dataclass(frozen=True, slots=True)
class Pndm(Stepper):
    """`PNDMScheduler` without Runge-Kutta steps.

    Keeps the last predictions, and the latents of the first call, which the second begins at again.
    """

    is_velocity: bool
    num_kept = 4
    names = ("ets.1", "ets.2", "ets.3")

    def table(self, scheduler: Scheduler, begin: int) -> Table:
        jump = scheduler.config.num_train_timesteps // scheduler.num_inference_steps
        for call, time in enumerate(scheduler.timesteps):
            age = call - begin
            at, to = (time + jump, time) if age == 1 else (time, time - jump)
            alpha, after = alphas(scheduler, at, to)
            divisor = alpha * (1 - after) ** 0.5 + (alpha * (1 - alpha) * after) ** 0.5
            sums = WEIGHTS[min(max(age, 0), len(WEIGHTS) - 1)]
            velocity = (alpha**0.5, (1 - alpha) ** 0.5)
            moved = ((after / alpha) ** 0.5, after - alpha, divisor)
            yield 1.0, float(age == 1), *sums, *velocity, *moved

    def counts(self, scheduler: Scheduler, calls: int) -> Mapping[str, int]:
        del scheduler
        return {"counter": calls}

    def step(
        self, c: Coefficients, state: Tensor, prediction: Tensor, noise: Tensor
    ) -> Sequence[Tensor]:
        del noise
        again, *weights, factor, divisor, alpha, sigma, keep, change, total = c
        sample, *kept, first = state.to(prediction.dtype).unbind(1)
        is_again = again > 0
        mean = _sum([prediction, *kept], weights)
        mean = over(times(mean, factor), divisor)
        start = torch.where(is_again, first, sample)
        if self.is_velocity:
            mean = times(mean, alpha) + times(start, sigma)
        after = times(start, keep) - over(times(mean, change), total)
        shifted = [prediction, *kept[:2]]
        kept = [torch.where(is_again, old, new) for old, new in zip(kept, shifted, strict=True)]
        return after, *kept, sample


def _sum(predictions: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    newest, older, third, fourth = map(times, predictions, weights)
    return newest - older + third - fourth
