"""Reports of workers and depths of queues. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from core.boards.cost import Cost
from core.boards.image_work import ImageWork


class Stage(StrEnum):
    """What is done to a model before it serves, or beside that."""

    ROOM = "room"  #: it waits until others have left the memory
    READING = "reading"  #: its weights are read
    TIMING = "timing"  #: it is there; its steps are timed while there is nothing else to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Warming:
    """A model that a worker gets ready, and how far that is."""

    model: str
    stage: Stage
    seconds: float  #: since it began
    #: of the time that it took the last one of this device type; None: nobody has loaded it there
    fraction: float | None = None
    serves: bool = True  #: it was asked for; otherwise it is tried while there is nothing to do

    def is_loading(self, model: str) -> bool:
        """Tell whether this model is on its way to serve."""
        return self.serves and self.model == model and self.stage is not Stage.TIMING

    def rest_s(self, load_s: float) -> float:
        """Expect it to be loaded in so many seconds, given what is said of how long that takes.

        What takes longer than anybody has said is taken to be half over.
        """
        if self.stage is Stage.ROOM:
            return load_s
        if self.fraction:
            load_s = self.seconds / self.fraction
        return load_s - self.seconds if load_s > self.seconds else self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker process on one device, as it last reported."""

    name: str  #: `<label>@<host>`, also its Celery node name
    device_type: str  #: such as `cpu` or `NVIDIA H200`: workers of one type share a profile
    models: tuple[str, ...]  #: resident now
    queues: tuple[str, ...]  #: consumed now
    memory_gib: float  #: for models, and for what they compute
    catalogue: tuple[str, ...] = ()  #: models in its folder; empty: nobody said
    refused: tuple[str, ...] = ()  #: of these, models that it could not load lately
    failures: Mapping[str, str] = field(default_factory=dict)  #: model -> why it could not
    loading: Warming | None = None  #: a model that it gets ready now
    running: int = 0  #: slots in the running batch
    waiting: int = 0  #: claimed, not admitted yet
    max_slots: int = 8  #: jobs it holds at a time
    step_s: float = 0.0  #: seconds of its last denoising steps, smoothed
    step_images: float = 1.0  #: images that shared them, smoothed alike
    most_sharing: int = 0  #: images that share one while every slot is taken; 0: all of them
    #: model -> what it was seen to cost here before it served, where no profile says
    costs: Mapping[str, Cost] = field(default_factory=dict)
    untried: tuple[str, ...] = ()  #: models of which nobody knows what they cost here
    load_s: Mapping[str, float] = field(default_factory=dict)  #: model -> seconds to load, as seen
    needs_gib: Mapping[str, float] = field(default_factory=dict)  #: model -> memory it takes here
    slowness: float = 0.0  #: time of its steps in profiled ones, smoothed; 0: not known
    starts_read: int = 0  #: latents that jobs go on from, asked for and answered since it started
    starts_late: int = 0  #: of these, not answered in time, or by an error
    works: tuple[ImageWork, ...] = ()  #: images it makes or will: claimed, or on its own queue
    recordings: tuple[str, ...] = ()  #: names of those in its host memory, the last used ones
    shelved: tuple[str, ...] = ()  #: names of those on its disk, the last used ones
    beat_at: float = 0.0  #: epoch s, the store's clock


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChange:
    """What differs between two looks at the fleet."""

    workers: Sequence[Worker] = ()  #: that came, or said something new
    gone: Sequence[str] = ()  #: names of those who left or fell silent

    @classmethod
    def between(cls, before: Mapping[str, Worker], after: Iterable[Worker]) -> "FleetChange":
        """Compare all reports with those of before, by name."""
        now = {worker.name: worker for worker in after}
        new = tuple(worker for name, worker in now.items() if before.get(name) != worker)
        return cls(workers=new, gone=tuple(name for name in before if name not in now))

    @property
    def is_empty(self) -> bool:
        return not (self.workers or self.gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """How much waits on one variant queue."""

    queue: str
    waiting: int  #: jobs queued, not claimed
    oldest_s: float  #: seconds the first of them has waited
    later: int = 0  #: of these, jobs that let those of the first priority go before
    tenants: Mapping[str, int] = field(default_factory=dict)  #: whose they are; empty: not known
