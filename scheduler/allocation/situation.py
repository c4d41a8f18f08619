"""What the fleet does and what lately arrived, for planners that look ahead. Pure data."""

import zlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

from core.boards.cost import Cost
from core.boards.demand import AskedJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One worker: what it serves, what it was given, and how busy it is."""

    device_type: str
    serves: str | None  #: model that it serves now; None: it loads, and had no room for both
    given: str | None  #: model of the last plan
    ready_s: float = 0.0  #: until it has loaded what it was given
    holds: frozenset[str] = frozenset()  #: models that it need not load
    memory_gib: float = 0.0
    running: int = 0  #: images in its steps
    sharing: int = 1  #: images that share a step while every slot is taken
    slots: int = 1  #: jobs that it holds at a time: of these the smallest are made first


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingImages:
    """Jobs that wait for one model."""

    images: float
    oldest_s: float  #: since the first of them came
    steps: float | None = None  #: that an image of this model has before it, usually


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a rollout starts from, beside the instance."""

    seats: tuple[Seat, ...]
    #: work that arrived in each second of the last hour, oldest first, in jobs of default size
    history: tuple[float, ...] = ()
    is_telling: bool = True  #: whether that says what will come
    #: `promised_as` -> the last jobs
    jobs: Mapping[str, tuple[AskedJob, ...]] = field(default_factory=dict)
    waiting: Mapping[str, WaitingImages] = field(default_factory=dict)  #: by model
    costs: Mapping[tuple[str, str], Cost] = field(default_factory=dict)  #: device type, model
    steps: Mapping[str, int] = field(default_factory=dict)  #: model -> of an image, by default
    sizes: Mapping[str, float] = field(default_factory=dict)  #: model -> GiB

    @property
    def seed(self) -> int:
        """Seed of what is drawn: after the same two minutes of arrivals the same plan is made."""
        return zlib.crc32(array("d", self.history[-120:]).tobytes())
