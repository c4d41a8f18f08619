"""Level: a model and an approximation, with its name in records, plans and profiles. Pure."""

from dataclasses import dataclass, field
from functools import lru_cache

from core.levels.approximation import (
    EXACT,
    Approximation,
    approximation_of,
    approximations_of,
)
from core.model import Model


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Level:
    """A model and what is left out of its images: Argus' approximation level (§2.1).

    Sorted by model, and of one model by how much is left out.
    """

    _key: tuple[str, float, str] = field(init=False, repr=False)
    model: str = field(compare=False)
    approximation: Approximation = field(default=EXACT, compare=False)
    name: str = field(init=False, repr=False, compare=False)  #: `<model>@<code>`

    def __post_init__(self) -> None:
        approximation = self.approximation
        name = f"{self.model}@{approximation.code}"
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "_key", (self.model, -approximation.share_of_steps, name))

    @classmethod
    @lru_cache(maxsize=1024)
    def read(cls, name: str) -> "Level":
        """Read the name of a level. Raises: ValueError if it is none."""
        model, _, code = name.rpartition("@")
        return cls(model=model, approximation=approximation_of(code))

    @property
    def is_exact(self) -> bool:
        """Whether nothing is left out."""
        return self.approximation == EXACT

    @property
    def exact(self) -> "Level":
        """The same model with nothing left out."""
        return exact_level(self.model)


@lru_cache(maxsize=1024)
def exact_level(model: str) -> Level:
    """Give the level of a model at which nothing is left out."""
    return Level(model=model)


def levels_of(model: Model) -> tuple[Level, ...]:
    """List every level of a model, the exact one first."""
    return tuple(Level(model=model.name, approximation=each) for each in approximations_of(model))


@lru_cache(maxsize=256)
def resumes(model: Model) -> bool:
    """Tell whether a model goes on from what other prompts left behind."""
    return bool(resumed_levels(model))


def resumed_levels(model: Model) -> tuple[Level, ...]:
    """List the levels of a model that go on from what another prompt left behind."""
    return tuple(level for level in levels_of(model) if level.approximation.needs_latents)
