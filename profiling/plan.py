"""Size of a profile measurement: prompts, seeds, steps."""

from dataclasses import dataclass

from core.levels.level import Level, resumed_levels
from core.levels.schedule import scaled
from core.model import Model

#: Noise of remembered prompts is never that of measured ones.
_OTHER_NOISE = 500_000
_NOISE_OF_REPEAT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementPlan:
    """The size of a measurement."""

    #: Prompts that are measured at every level.
    prompts: int = 200
    #: Prompts of every repeat whose latents are there to start from.
    remembered: int = 500
    #: Images of each prompt at each level.
    repeats: int = 2
    #: Denoising steps of a full schedule.
    steps: int = 50

    def steps_of(self, model: Model) -> int:
        """Count the steps of a full schedule; a model made for few takes its own number."""
        return self.steps if resumed_levels(model) else model.default_steps

    def seeds(self, repeat: int) -> list[int]:
        """Number the noise of the measured prompts."""
        start = repeat * _NOISE_OF_REPEAT
        return list(range(start, start + self.prompts))

    def seeds_of_memory(self, repeat: int) -> list[int]:
        """Number the noise of the remembered prompts."""
        start = repeat * _NOISE_OF_REPEAT + _OTHER_NOISE
        return list(range(start, start + self.remembered))

    def steps_at(self, level: Level, model: Model) -> int:
        """Count the steps of all images of one level and repeat."""
        steps = self.steps_of(model)
        return self.prompts * level.approximation.steps_left(steps)

    def steps_of_memory(self, model: Model) -> int:
        """Count the steps that remembering takes in one repeat: up to the highest K."""
        levels, steps = resumed_levels(model), self.steps_of(model)
        furthest = max((level.approximation.skipped_steps for level in levels), default=0)
        return self.remembered * scaled(furthest, steps)


#: Seconds instead of an hour: shows that everything works, measures nothing.
QUICK = MeasurementPlan(prompts=10, remembered=25, repeats=1, steps=10)
