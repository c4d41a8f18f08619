"""What steps of one model really take on one type of device, by who shares them. Pure."""

import math
from collections.abc import Mapping

from core.boards.cost import Cost
from core.boards.image_work import ImageWork
from core.levels.level import levels_of
from core.model import Model
from scheduler.placement.step_cost import Burden, StepCosts, Tier
from scheduler.profile.profile import Profile
from worker.engine.batch import MOST_SLICES, SHARE_ASIDE, best_size

#: What an adapter adds to each step of its image, in steps of one image alone: a LoRA that is
#: not merged, and a ControlNet that is computed beside it. Taken, not profiled.
LORA, CONTROL = 0.05, 0.1


class StepTimes:
    """Times of one model on one type of device."""

    def __init__(
        self,
        cost: Cost,
        edits: StepCosts,
        *,
        slots: int,
        factor: float = 1.0,
        fixed_s: Mapping[str, float] | None = None,
    ) -> None:
        """Take what a profile says, times a factor.

        Args:
            edits: what images under masks add to a step.
            fixed_s: level -> seconds of an image beside its steps, where they are not the cost's.
        """
        counts = range(1, slots + 1)
        #: [slots + 1], seconds of a step that so many images share
        self.seconds = [0.0, *(factor * cost.step_s(n) for n in counts)]
        self.one_s = self.seconds[1]
        self._fixed_s = cost.fixed_s
        self._fixed_s_of = fixed_s or {}
        self.factor = factor
        self._edits = edits
        rising = [max(self.seconds[1 : n + 1]) for n in counts]
        #: [slots + 1], images that share a step while slots are free, and while none is
        self.open_sizes, self.full_sizes = (
            [0, *(best_size(range(1, n + 1), rising[:n], is_full=full) for n in counts)]
            for full in (False, True)
        )

    def burden(self, work: ImageWork, tier: Tier) -> Burden:
        """Say what an image adds to a step that edits share."""
        found = self._edits.burden(work, tier)
        return Burden(compute_s=self.factor * found.compute_s, load_s=self.factor * found.load_s)

    @property
    def start_s(self) -> float:
        """What a step takes beside what its images add, where edits share it."""
        return self.factor * self._edits.start_s

    def decode_s(self, level: str) -> float:
        """Say how long an image is decoded (s): all that it takes beside its steps.

        Prompts are encoded beside the steps of others, by a thread of their own.
        """
        return self.factor * self._fixed_s_of.get(level, self._fixed_s)


def slices(decode_s: float, step_s: float) -> int:
    """Count the slices in which an image is decoded beside the steps of others."""
    slice_s = max(SHARE_ASIDE * step_s, decode_s / MOST_SLICES)
    return max(1, math.ceil(decode_s / slice_s - 1e-9)) if slice_s > 0 else 1


def fixed_s_of(profile: Profile, model: Model, device_type: str) -> dict[str, float]:
    """Say what images take beside their steps, by level, where they were timed as a whole."""
    step_s = profile.cost(model.name, device_type).step_s(1)
    known = profile.measured.tau.get(device_type, {})
    found = {}
    for level in levels_of(model):
        if level.name in known:
            steps = level.approximation.steps_left(model.default_steps)
            found[level.name] = max(0.0, known[level.name] - steps * step_s)
    return found
