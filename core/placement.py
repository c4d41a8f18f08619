"""Where a job goes and at which level. Pure data, made by the scheduler."""

from dataclasses import dataclass, replace
from enum import StrEnum

from core.latents import Start, Terms
from core.variant import Level


def queue_of(model: str) -> str:
    """Name the variant queue that workers holding `model` serve."""
    return f"gen.{model}"


class PlacedBy(StrEnum):
    """Who decided."""

    SCHEDULER = "scheduler"  #: the scheduler service answered in its budget
    PLAN = "plan"  #: it did not; the api followed the last published plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One job's queue and level."""

    queue: str  #: `gen.<model>`
    model: str
    level: str  #: `<model>@<skipped steps>`
    skipped_steps: int = 0  #: K of approximate caching; 0 starts from noise
    affinity: str = "any"  #: the class the classifier gave the prompt
    placed_by: PlacedBy = PlacedBy.SCHEDULER
    start: Start | None = None  #: with K > 0: the latents to go on from

    def reached(self, skipped_steps: int) -> "Placement":
        """Say what became of it: fewer steps skipped, or none if there is nothing to go on from."""
        if skipped_steps == self.skipped_steps:
            return self
        level = Level(model=self.model, skipped_steps=skipped_steps).name
        start = self.start if skipped_steps else None
        return replace(self, level=level, skipped_steps=skipped_steps, start=start)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementQuery:
    """What the scheduler needs to know to place one job."""

    prompt: str
    models: tuple[str, ...]  #: models that can make it; one name if the client chose
    application: str | None = None
    exact: bool = False  #: K = 0 on the best model
    steps: int | None = None  #: None: the model's default
    rows: int = 1  #: images asked for
    tenant: str | None = None  #: whose latents it may start from; None: nobody's
    #: Of the latents, for each of `models` that may go on from some; empty: it starts from noise.
    terms: tuple[Terms, ...] = ()
