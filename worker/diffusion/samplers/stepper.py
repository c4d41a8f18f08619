"""Interface of what steps all rows of a batch that have one kind of sampler.

A step multiplies and adds tensors by numbers that depend on the schedule alone. These are read once
for each schedule from its diffusers scheduler, and a step takes the operations of diffusers in
their order: in single precision each row is bit by bit what diffusers gives it alone. In half
precision coefficients keep single precision, as diffusers' do on CUDA.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from torch import Tensor

from worker.diffusion.stock import Scheduler

#: Coefficients of a step, each a number a row, [B, 1, 1, 1].
Coefficients = Sequence[Tensor]

Number = float | Tensor  #: of the host

#: Coefficients of each call of the model: first what its input is divided by.
Table = Iterator[Sequence[Number]]


class Stepper(ABC):
    """One kind of sampler. Equal ones step together."""

    num_kept: ClassVar[int] = 0  #: tensors that an image keeps beside its latents, step to step
    names: ClassVar[Sequence[str]] = ()  #: of the first of these, in snapshots
    is_stochastic: bool = False  #: whether it draws noise on its way

    @abstractmethod
    def table(self, scheduler: Scheduler, begin: int) -> Table:
        """List the coefficients of a schedule, for an image that begins with call `begin`."""

    def draws(self, call: int, calls: int) -> bool:
        """Tell whether noise is drawn after a call of the model, one of so many."""
        del call, calls
        return self.is_stochastic

    def counts(self, scheduler: Scheduler, calls: int) -> Mapping[str, int]:
        """Count, by the names of snapshots, what diffusers counts in so many calls of the model."""
        del scheduler, calls
        return {}

    @abstractmethod
    def step(
        self, c: Coefficients, state: Tensor, prediction: Tensor, noise: Tensor
    ) -> Sequence[Tensor]:
        """Give the next latents, and what is kept for the step after that.

        Shapes: state [B, 1 + num_kept, C, h, w] in float32, latents first; prediction and noise
        [B, C, h, w]; zeros where no noise is drawn.
        """


def times(tensor: Tensor, c: Tensor) -> Tensor:
    """Multiply each row by its number, and round as multiplying by one number does."""
    made = tensor * c
    return made if made.dtype == tensor.dtype else made.to(tensor.dtype)


def over(tensor: Tensor, c: Tensor) -> Tensor:
    """Divide each row by its number, and round as dividing by one number does."""
    made = tensor / c
    return made if made.dtype == tensor.dtype else made.to(tensor.dtype)


def is_velocity(scheduler: Scheduler) -> bool | None:
    """Tell whether a model predicts velocities, or noise; None: neither."""
    return {"epsilon": False, "v_prediction": True}.get(scheduler.config.prediction_type)
