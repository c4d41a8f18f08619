"""Placement: queue and level of a job; names of queues. Pure data."""

from dataclasses import dataclass, replace
from enum import StrEnum

from core.boards.image_work import ImageWork
from core.errors import NoPlan, TooManyRequests
from core.latents import LatentKey, Start
from core.levels.approximation import EXACT, Approximation
from core.levels.level import Level, exact_level

CPU_QUEUE = "cpu"  #: ordinary tasks, served by workers without a model

_OWN = "@"  #: divides a model from the worker whose own queue it is; no model has it in its name


def queue_of(model: str) -> str:
    """Name the variant queue that workers holding `model` serve."""
    return f"gen.{model}"


def model_of(queue: str) -> str:
    """Name the model of a variant queue."""
    return queue.removeprefix("gen.")


def own_queue_of(queue: str, worker: str) -> str:
    """Name the queue of what one of those who serve a variant queue alone shall make."""
    return f"{queue}{_OWN}{worker}"


def shared_queue_of(queue: str) -> str:
    """Name the variant queue of a model, given that or a worker's own."""
    return queue.partition(_OWN)[0]


def owner_of(queue: str) -> str | None:
    """Name the worker whose own queue it is; None: any holder of its model serves it."""
    return queue.partition(_OWN)[2] or None


def is_own(queue: str) -> bool:
    """Tell a worker's own queue from one that any holder of its model serves."""
    return _OWN in queue


class PlacedBy(StrEnum):
    """Who decided."""

    SCHEDULER = "scheduler"  #: the scheduler service answered in its budget
    PLAN = "plan"  #: it did not; the api followed the last published plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One job's queue and level."""

    queue: str  #: `gen.<model>`
    model: str
    level: str  #: `<model>@<approximation>`, such as `base@20`
    skipped_steps: int = 0  #: K of 50, if its level is to go on from latents; 0 starts from noise
    affinity: str = "any"  #: the class the classifier gave the prompt
    placed_by: PlacedBy = PlacedBy.SCHEDULER
    start: Start | None = None  #: the latents to go on from, if its level needs any

    @classmethod
    def on(
        cls, level: Level, *, affinity: str = "any", placed_by: PlacedBy = PlacedBy.SCHEDULER
    ) -> "Placement":
        """Place a job at a level, on the queue of its model."""
        return cls(
            queue=queue_of(level.model),
            model=level.model,
            level=level.name,
            skipped_steps=level.approximation.skipped_steps,
            affinity=affinity,
            placed_by=placed_by,
        )

    @property
    def at(self) -> Level:
        """Its level, as a value; one of a later version counts as the exact one."""
        try:
            return Level.read(self.level)
        except ValueError:
            return exact_level(self.model)

    @property
    def approximation(self) -> Approximation:
        """What its level leaves out."""
        return self.at.approximation

    def moved(self, level: Level) -> "Placement":
        """Place the job at another level, on the queue of its model."""
        return replace(
            self,
            queue=queue_of(level.model),
            model=level.model,
            level=level.name,
            skipped_steps=level.approximation.skipped_steps,
        )

    def from_noise(self) -> "Placement":
        """Have it made without latents: at the exact level of its model, if its own needs some."""
        return self.reached(EXACT) if self.approximation.needs_latents else self

    def reached(self, approximation: Approximation) -> "Placement":
        """Say what became of it: less left out, or nothing if there is nothing to go on from."""
        level = Level(model=self.model, approximation=approximation)
        if level.name == self.level:
            return self
        start = self.start if approximation.needs_latents else None
        skipped = approximation.skipped_steps
        return replace(self, level=level.name, skipped_steps=skipped, start=start)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementQuery:
    """What the scheduler needs to know to place one job."""

    prompt: str
    models: tuple[str, ...]  #: models that can make it; one name if the client chose
    application: str | None = None
    exact: bool = False  #: nothing left out, on the best model
    steps: int | None = None  #: None: the model's default
    share: float = 1.0  #: of the time of all those steps that it takes
    rows: int = 1  #: images asked for
    tenant: str | None = None  #: whose latents it may start from; None: nobody's
    #: Of the latents, for each of `models` that may go on from some; empty: it starts from noise.
    terms: tuple[LatentKey, ...] = ()
    #: Of a masked edit: each of its images, as each of `models` would make it; else empty.
    works: tuple[ImageWork, ...] = ()
    slo_s: float | None = None  #: from acceptance, where the plan may be left to keep it
    max_wait_s: float | None = None  #: that it may take with what is before it; None: any time
    is_batch: bool = False  #: nobody waits for it: it lets others go before
    ticket: str = ""  #: the same when it is asked for again; empty: it has no place in line
    is_again: bool = False  #: it was placed before, and adds nothing to the demand
    is_counted: bool = True  #: it is demand; what a limit of its tenant is to refuse is none

    @property
    def can_resume(self) -> bool:
        """Say whether it may start from latents; an edit, say, and an exact job may not."""
        return bool(self.terms) and self.tenant is not None and not self.exact


#: What becomes of a query: a place, nobody who could make it, or another time to ask again.
Answer = Placement | NoPlan | TooManyRequests
