"""Reports of workers and depths of queues. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.boards.cost import Cost
from core.boards.image_work import ImageWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker process on one device, as it last reported."""

    name: str  #: `<label>@<host>`, also its Celery node name
    device_type: str  #: such as `cpu` or `NVIDIA H200`: workers of one type share a profile
    models: tuple[str, ...]  #: resident now
    queues: tuple[str, ...]  #: consumed now
    memory_gib: float  #: for weights
    catalogue: tuple[str, ...] = ()  #: models in its folder; empty: nobody said
    refused: tuple[str, ...] = ()  #: of these, models that it could not load lately
    running: int = 0  #: slots in the running batch
    waiting: int = 0  #: claimed, not admitted yet
    max_slots: int = 8  #: jobs it holds at a time
    step_s: float = 0.0  #: seconds of its last denoising steps, smoothed
    step_images: float = 1.0  #: images that shared them, smoothed alike
    most_sharing: int = 0  #: images that share one while every slot is taken; 0: all of them
    #: model -> what it was seen to cost here before it served, where no profile says
    costs: Mapping[str, Cost] = field(default_factory=dict)
    untried: tuple[str, ...] = ()  #: models of which nobody knows what they cost here
    slowness: float = 0.0  #: time of its steps in profiled ones, smoothed; 0: not known
    starts_read: int = 0  #: latents that jobs go on from, asked for and answered since it started
    starts_late: int = 0  #: of these, not answered in time, or by an error
    works: tuple[ImageWork, ...] = ()  #: images it makes or will: claimed, or on its own queue
    recordings: tuple[str, ...] = ()  #: names of those in its host memory, the last used ones
    shelved: tuple[str, ...] = ()  #: names of those on its disk, the last used ones
    beat_at: float = 0.0  #: epoch s, the store's clock


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """How much waits on one variant queue."""

    queue: str
    waiting: int  #: jobs queued, not claimed
    oldest_s: float  #: seconds the first of them has waited
    later: int = 0  #: of these, jobs that let those of the first priority go before
