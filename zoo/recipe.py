"""Hyperparameters of denoiser training: steps, learning rate, data mix."""

from dataclasses import dataclass

from zoo.scenes import LEVELS
from zoo.training import Recipe

Mix = tuple[float, ...]

#: Shares of the levels for weights that know nothing yet: easy scenes first.
EARLY_MIX: Mix = (0.34, 0.32, 0.22, 0.07, 0.05)
#: Shares of the levels in the end: what is hard needs most.
LATE_MIX: Mix = (0.05, 0.16, 0.24, 0.27, 0.28)

#: The early mix holds for this part of `mix_steps`.
_MIX_HOLD = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class DenoiserRecipe(Recipe):
    """The settings of one denoiser run."""

    #: Optimiser steps in all.
    steps: int = 6000
    #: The last steps, over which the learning rate falls linearly.
    decay_steps: int = 4000
    #: The first steps, over which it rises.
    warmup_steps: int = 100
    #: Steps after which the late mix of levels holds; 0 for a model that knows the easy ones.
    mix_steps: int = 2000
    #: Chance that a caption is replaced by the empty one, for guidance.
    drop: float = 0.09

    def mix_at(self, step: int) -> dict[int, float]:
        """Give the share of each level."""
        done = step / self.mix_steps if self.mix_steps else 1.0
        late = min(1.0, max(0.0, (done - _MIX_HOLD) / (1 - _MIX_HOLD)))
        shares = zip(LEVELS, EARLY_MIX, LATE_MIX, strict=True)
        return {level: early * (1 - late) + last * late for level, early, last in shares}
