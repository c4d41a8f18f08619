"""Engine state of a job in progress: one ticket per job, one slot per image."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from core.errors import JobStopped
from core.job import Job, Progress
from core.traits import Use, is_as_profiled
from core.variant import SCHEDULE_STEPS
from worker.diffusion.runner import AnyRunner, Group, JobInputs, KeptLatent, Pixels, Sample


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobImages:
    """The images of one job, and when the engine worked on it."""

    job_id: str
    images: tuple[Pixels, ...]  #: each [H, W, 3]
    seeds: tuple[int, ...]  #: of each image
    admitted_at: float  #: epoch s, its first image joined the running batch
    denoised_at: float  #: epoch s, its last image took its last step
    skipped_steps: int = 0  #: K of 50, the level that was really reached
    left: Mapping[int, KeptLatent] = field(
        default_factory=dict
    )  #: by K of 50, for others to begin at


@dataclass(slots=True, kw_only=True, eq=False)
class Ticket:
    """One job in the engine, from `add` until its future is resolved."""

    job: Job
    runner: AnyRunner  #: the resident model that makes it
    due_at: float  #: epoch s, its rank among the others
    deadline: float | None  #: epoch s; later than that it is not made
    brought: JobInputs | None = None  #: images of an edit, or latents to go on from
    future: "Future[JobImages]" = field(default_factory=Future)
    images: dict[int, Pixels] = field(default_factory=dict)  #: finished ones, by index
    skips: set[int] = field(default_factory=set)  #: K of 50 of each of them
    left: Mapping[int, KeptLatent] = field(default_factory=dict)  #: by its first image
    steps_done: float = 0.0  #: sum of the shares of its images' schedules that are over, in [0, n]
    admitted_at: float = 0.0  #: epoch s
    denoised_at: float = 0.0  #: epoch s
    is_as_profiled: bool = field(init=False)  #: its steps say how fast the device is
    stopped: JobStopped | None = None  #: set by any thread; the engine obeys before its next step
    is_closed: bool = False  #: its future is resolved; what is left of it is dropped

    def __post_init__(self) -> None:
        self.is_as_profiled = is_as_profiled(Use.PACE, self.job.request, self.runner.model)

    @property
    def progress(self) -> Progress:
        """Mean over its images, in denoising steps as the client counts them.

        Steps that are skipped are over from the start: a client waits for the others alone.
        """
        request = self.job.request
        done = int(request.steps * self.steps_done / request.n + 1e-6)
        return Progress(step=done, steps=request.steps)

    def made(self) -> JobImages:
        """Collect its images in the order of their seeds."""
        indices = range(self.job.request.n)
        assert self.images.keys() == set(indices)
        return JobImages(
            job_id=self.job.id,
            images=tuple(self.images[i] for i in indices),
            seeds=self.job.request.seeds,
            admitted_at=self.admitted_at,
            denoised_at=self.denoised_at,
            skipped_steps=min(self.skips),
            left=self.left,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pending:
    """One image that waits for a slot."""

    ticket: Ticket
    index: int  #: which image of the job

    @property
    def order(self) -> tuple[float, str, int]:
        return (self.ticket.due_at, self.ticket.job.id, self.index)


@dataclass(slots=True, kw_only=True, eq=False)
class Slot:
    """One image in the running batch."""

    ticket: Ticket
    index: int  #: which image of the job
    sample: Sample  #: the runner's own
    step: int = 0  #: steps taken

    @property
    def order(self) -> tuple[float, str, int]:
        return (self.ticket.due_at, self.ticket.job.id, self.index)

    @property
    def group(self) -> Group:
        return (id(self.ticket.runner), *self.sample.group)

    @property
    def rows(self) -> int:
        return self.sample.rows

    def note_begin(self) -> None:
        """Count the steps that it does not take."""
        skipped = self.sample.skipped_steps / SCHEDULE_STEPS
        self.ticket.steps_done += 1.0 if self.is_finished else skipped

    def note_step(self) -> None:
        """Count a step."""
        self.step += 1
        left = 1 - self.sample.skipped_steps / SCHEDULE_STEPS
        self.ticket.steps_done += left / self.sample.num_steps

    def hand_over(self, pixels: Pixels) -> None:
        """Give its job a finished image."""
        self.ticket.images[self.index] = pixels
        self.ticket.skips.add(self.sample.skipped_steps)
        if self.index == 0:
            self.ticket.left = self.sample.left

    @property
    def is_finished(self) -> bool:
        return self.step >= self.sample.num_steps
