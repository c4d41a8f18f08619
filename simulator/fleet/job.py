"""One job in virtual time, from its arrival to its end. Pure data."""

import math
from dataclasses import dataclass, replace

from core.boards.image_work import ImageWork
from core.levels.level import exact_level
from core.placement import PlacementQuery
from scheduler.placement.step_cost import Burden

#: The one template that edits start from: every worker has what was recorded of it.
TEMPLATE = "template"


@dataclass(slots=True, kw_only=True, eq=False)
class SimulatedJob:
    """One job that has arrived and not ended."""

    row: int  #: of the workload
    at: float  #: arrival, s
    due: float  #: promised, s
    query: PlacementQuery  #: by which it was placed
    affinity: str = ""  #: class of its prompt
    pixels: int = 0  #: of an image; 0: its model's own size
    queue: str = ""
    model: str = ""
    level: str = ""
    images: int = 1
    steps: int = 0  #: that each image takes
    skipped: int = 0  #: of the schedule of each image, before those
    size: float = 1.0  #: pixels of an image, in those of the model's own size
    surcharge: float = 0.0  #: that adapters add to each step, in steps of one image alone
    decode_s: float = 0.0  #: of an image, after its last step, where it is made
    work: ImageWork | None = None  #: of an edit: one of its images
    burden: Burden | None = None  #: of such an image, on the worker that makes it
    deadline: float = math.inf  #: later than that it is not made, s
    opened: int = 0  #: images that have or had a slot
    undone: int = 0  #: images that are not decoded yet
    left: float = 0.0  #: steps of all its images, with those that will be skipped
    is_over: bool = False  #: it has ended, or its client has gone

    @property
    def is_plain(self) -> bool:
        """Whether its steps compute whole images and wait for nobody."""
        return self.burden is None and not self.surcharge

    @property
    def has_left(self) -> bool:
        """Whether none of its images needs a slot any more."""
        return not self.left

    def begin(self) -> None:
        """Forget what was made of it, if anything was."""
        self.opened, self.undone = 0, self.images
        self.left = float(self.images * (self.steps + self.skipped))

    def start_from_noise(self) -> None:
        """Take every step: there is nothing to go on from."""
        self.steps, self.skipped = self.steps + self.skipped, 0
        self.level = exact_level(self.model).name


def works_of(job: SimulatedJob) -> list[ImageWork]:
    """Say what each of its images that is not made yet adds to a worker's batch."""
    if job.work is None:
        each = ImageWork(job=str(job.row), model=job.model, steps=job.steps, rows=2, pixels=1)
        return [each] * job.undone
    return [replace(job.work, job=str(job.row))] * job.undone
