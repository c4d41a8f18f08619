"""How is the denoiser trained: for how long, how fast, on what?"""

from dataclasses import dataclass

from zoo.scenes import LEVELS
from zoo.schedule import share_of_peak

#: Shares of the levels at the start and once `mix_steps` are done.
EARLY_MIX = (0.34, 0.32, 0.22, 0.07, 0.05)
LATE_MIX = (0.14, 0.24, 0.36, 0.15, 0.11)

#: The early mix holds for this part of `mix_steps`.
_MIX_HOLD = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The settings of one denoiser run; a resumed run may change `steps` alone."""

    #: Decides the scenes, the noise and the initial weights.
    seed: int = 0
    #: Optimiser steps in all.
    steps: int = 5600
    #: The last steps, over which the learning rate falls linearly.
    decay_steps: int = 3100
    #: The first steps, over which it rises.
    warmup_steps: int = 100
    #: Steps after which the late mix of levels holds.
    mix_steps: int = 3500
    #: Scenes per step.
    batch: int = 64
    #: Peak learning rate of the denoiser.
    rate: float = 1e-3
    #: Share of it for the text encoders.
    text_rate: float = 0.6
    #: Chance that a caption is replaced by zeros, for guidance.
    drop: float = 0.09
    #: Decay of the averaged weights.
    average: float = 0.998
    #: Largest gradient norm.
    clip: float = 1.0

    def rate_at(self, step: int) -> float:
        """Give the learning rate: warm-up, constant, linear decay."""
        return self.rate * share_of_peak(
            step,
            steps=self.steps,
            decay_steps=self.decay_steps,
            warmup_steps=self.warmup_steps,
        )

    def mix_at(self, step: int) -> dict[int, float]:
        """Give the share of each level."""
        done = step / self.mix_steps
        late = min(1.0, max(0.0, (done - _MIX_HOLD) / (1 - _MIX_HOLD)))
        shares = zip(LEVELS, EARLY_MIX, LATE_MIX, strict=True)
        return {level: early * (1 - late) + last * late for level, early, last in shares}

    def average_at(self, step: int) -> float:
        """Give the decay of the averaged weights, shorter at the start."""
        return min(self.average, (1 + step) / (10 + step))
