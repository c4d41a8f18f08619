"""Approximations: every way to make an image cheaper, what it costs and needs. Pure."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import ceil, isclose
from typing import ClassVar, Self

from core.levels.schedule import SCHEDULE_STEPS, scaled
from core.model import Model

#: Every K > 0 that a level may have.
SKIPS = (5, 10, 15, 20, 25)


class Approximation(ABC):
    """What is left out of an image. Planning, routing and workers know no more than this of it."""

    __slots__ = ()

    #: Whether it goes on from what another prompt left behind; without that, it is exact.
    needs_latents: ClassVar[bool] = False
    #: Share of a model's quality that it is guessed to keep; None: it is not used unprofiled.
    kept_quality: ClassVar[float | None] = None

    @classmethod
    @abstractmethod
    def read(cls, code: str) -> Self | None:
        """Read what stands behind the `@` of a level's name; None: that is of another kind."""

    @classmethod
    @abstractmethod
    def offered(cls, model: Model) -> tuple[Self, ...]:
        """List all of this kind that a model can be run with."""

    @property
    @abstractmethod
    def code(self) -> str:
        """Name it in names of levels, as `read` reads it."""

    @property
    @abstractmethod
    def share_of_steps(self) -> float:
        """Which part of the time of all steps it takes, in (0, 1]."""

    @property
    def skipped_steps(self) -> int:
        """K of 50: how far the latents are that it goes on from; 0 starts from noise."""
        return 0

    @property
    def head_start(self) -> float:
        """Which part of the schedule is over before the first step is taken, in [0, 1)."""
        return 0.0

    @property
    def step_cost(self) -> float:
        """What a step that is taken costs on average, in steps of the model."""
        return self.share_of_steps / (1.0 - self.head_start)

    @property
    def has_whole_steps(self) -> bool:
        """Whether each step that is taken costs what a step of the model does."""
        return isclose(self.step_cost, 1.0)

    def steps_left(self, steps: int, done: int = 0) -> int:
        """Count the steps of a schedule whose time is still to be spent.

        `done`: steps over, as progress counts them; a head start is among them once it runs.
        """
        return max(0, ceil(round((steps - done) * self.share_of_steps, 6)))


@dataclass(frozen=True, slots=True)
class Exact(Approximation):
    """Every step of the model: nothing is left out."""

    kept_quality = 1.0

    @classmethod
    def read(cls, code: str) -> Self | None:
        return cls() if code == "0" else None

    @classmethod
    def offered(cls, model: Model) -> tuple[Self, ...]:
        return (cls(),)

    @property
    def code(self) -> str:
        return "0"

    @property
    def share_of_steps(self) -> float:
        return 1.0

    def steps_left(self, steps: int, done: int = 0) -> int:
        return max(0, steps - done)


@dataclass(frozen=True, slots=True)
class SkippedSteps(Approximation):
    """The first K of 50 steps were taken for a similar prompt (Argus §2.1)."""

    k: int  #: of 50, at least 1

    needs_latents = True

    @classmethod
    def read(cls, code: str) -> Self | None:
        return cls(int(code)) if code.isdecimal() and int(code) else None

    @classmethod
    def offered(cls, model: Model) -> tuple[Self, ...]:
        """None where K of 50 is no whole number of the model's steps: few leave none to skip."""
        skips = whole_skips(model.default_steps)
        return tuple(cls(k) for k in SKIPS) if SKIPS[0] in skips else ()

    @property
    def code(self) -> str:
        return str(self.k)

    @property
    def share_of_steps(self) -> float:
        return 1.0 - self.head_start

    @property
    def skipped_steps(self) -> int:
        return self.k

    @property
    def head_start(self) -> float:
        return self.k / SCHEDULE_STEPS

    def steps_left(self, steps: int, done: int = 0) -> int:
        return max(0, steps - max(done, scaled(self.k, steps)))


EXACT = Exact()

#: The kinds there are, the exact one first: a new one is a class and its row here.
KINDS: tuple[type[Approximation], ...] = (Exact, SkippedSteps)


def approximation_of(code: str) -> Approximation:
    """Read what stands behind the `@` of a level's name. Raises: ValueError if nobody can."""
    for kind in KINDS:
        if (found := kind.read(code)) is not None:
            return found
    raise ValueError(f"no approximation is called {code!r}")


def approximations_of(model: Model) -> tuple[Approximation, ...]:
    """List every approximation that a model can be run with."""
    return tuple(each for kind in KINDS for each in kind.offered(model))


def skipping(k: int) -> Approximation:
    """Skip K of 50 steps, or none."""
    return SkippedSteps(k) if k else EXACT


def whole_skips(steps: int) -> tuple[int, ...]:
    """List every K > 0 that is a whole number of steps in a schedule of `steps`."""
    return tuple(k for k in SKIPS if k * steps % SCHEDULE_STEPS == 0)
