"""Step along a flow by Euler's method."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from worker.diffusion.samplers.stepper import Coefficients, Stepper, Table, times
from worker.diffusion.stock import Scheduler


@dataclass(frozen=True, slots=True)
class FlowEuler(Stepper):
    """`FlowMatchEulerDiscreteScheduler` that draws no noise."""

    def table(self, scheduler: Scheduler, begin: int) -> Table:
        del begin
        for sigma, after in zip(scheduler.sigmas, scheduler.sigmas[1:], strict=False):
            yield 1.0, after - sigma

    def step(
        self, c: Coefficients, state: Tensor, prediction: Tensor, noise: Tensor
    ) -> Sequence[Tensor]:
        del noise
        return (state[:, 0] + times(prediction, c[0]),)
