"""Per-sampler tables of the scheduler state to save and restore besides the latents.

An image that resumes from latents needs this state too, or its next steps differ. It is read from
and set on diffusers schedulers by attribute; the tests hold every sampler to bit-equal images.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from worker.diffusion.stock import Config, Scheduler


def _none(config: Config) -> int:
    del config
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What one class of samplers carries from step to step."""

    outputs: str = ""  #: attribute: the last outputs of the model, newest last
    depth: Callable[[Config], int] = _none  #: how many of these are read again
    tensors: tuple[str, ...] = ()  #: attributes: one tensor each
    counts: tuple[str, ...] = ()  #: attributes: one whole number each
    draws: str = ""  #: precision of the noise that a step draws, or that of the latents: `own`
    calls_a_step: int = 1  #: of the model
    first_calls: int = 0  #: more calls that the first step takes

    def calls(self, steps: int) -> int:
        """Count the calls of the model in the first steps, one or more, as a client counts them."""
        return self.calls_a_step * steps + self.first_calls

    def names(self, scheduler: Scheduler, steps: int) -> frozenset[str]:
        """Name what there is to remember after so many steps, one or more."""
        ages = range(1, 1 + min(steps, self.depth(scheduler.config)))
        outputs = [f"{self.outputs}.{age}" for age in ages]
        return frozenset([*outputs, *self.tensors, *self.counts])

    def read(self, scheduler: Scheduler, steps: int) -> dict[str, Tensor]:
        """Take from a scheduler what it remembers after so many steps."""
        return {name: self._read(scheduler, name) for name in self.names(scheduler, steps)}

    def _read(self, scheduler: Scheduler, name: str) -> Tensor:
        if name in self.counts:
            return torch.tensor(int(getattr(scheduler, name)))
        if name in self.tensors:
            tensor: Tensor = getattr(scheduler, name)
            return tensor
        output: Tensor = getattr(scheduler, self.outputs)[-int(name.rpartition(".")[2])]
        return output

    def give(self, scheduler: Scheduler, remembered: Mapping[str, Tensor]) -> None:
        """Make a fresh scheduler remember what another one did."""
        for name in self.counts:
            setattr(scheduler, name, int(remembered[name]))
        for name in self.tensors:
            setattr(scheduler, name, remembered[name])
        if self.outputs:
            known = sum(name.startswith(f"{self.outputs}.") for name in remembered)
            newest = [remembered[f"{self.outputs}.{age}"] for age in range(known, 0, -1)]
            empty = len(getattr(scheduler, self.outputs)) - len(newest)
            setattr(scheduler, self.outputs, [None] * empty + newest)


#: Class of diffusers -> what it carries. Others neither lend nor borrow.
HISTORIES: dict[str, History] = {
    "EulerDiscreteScheduler": History(),
    "DDIMScheduler": History(),
    "TCDScheduler": History(),
    "FlowMatchEulerDiscreteScheduler": History(),
    # Between two whole steps these have forgotten the first half of the last one.
    "HeunDiscreteScheduler": History(calls_a_step=2),
    "FlowMatchHeunDiscreteScheduler": History(calls_a_step=2),
    # They draw noise: a borrower passes over what it would have drawn, then draws its own.
    "EulerAncestralDiscreteScheduler": History(draws="own"),
    "LCMScheduler": History(draws="own"),
    # The oldest output has been used for the last time.
    "DPMSolverMultistepScheduler": History(
        outputs="model_outputs",
        depth=lambda config: int(config.solver_order) - 1,
        counts=("lower_order_nums",),
    ),
    # The corrector looks at one more output, and at the latents before the last step.
    "UniPCMultistepScheduler": History(
        outputs="model_outputs",
        depth=lambda config: int(config.solver_order),
        tensors=("last_sample",),
        counts=("lower_order_nums", "this_order"),
    ),
    # Its first step calls the model twice.
    "PNDMScheduler": History(
        outputs="ets", depth=lambda config: 3, counts=("counter",), first_calls=1
    ),
}


def history_of(scheduler: Scheduler) -> History | None:
    """Say what a scheduler carries; None if it is not known well enough to lend or borrow."""
    config = scheduler.config
    history = HISTORIES.get(type(scheduler).__name__)
    has_other_start = not config.get("skip_prk_steps", True)
    if history is None or has_other_start or config.get("stochastic_sampling", False):
        return None
    if str(config.get("algorithm_type", "")).startswith("sde"):
        return replace(history, draws="float32")
    return history
