"""Engine state of jobs in progress: one ticket per job, one slot per image."""

import threading
from collections.abc import Callable, Mapping, MutableMapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from core.errors import AtelierError, EngineError, JobStopped
from core.job import Job, JobRequest, Progress
from core.levels.approximation import EXACT, Approximation
from core.traits import Use, is_as_profiled
from worker.diffusion.image_state import ImageState
from worker.diffusion.runner import (
    AnyRunner,
    Group,
    JobInputs,
    KeptLatent,
    Pixels,
    Sample,
)
from worker.engine.stats import Activity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobImages:
    """The images of one job, and when the engine worked on it."""

    job_id: str
    images: tuple[Pixels, ...]  #: each [H, W, 3]
    seeds: tuple[int, ...]  #: of each image
    admitted_at: float  #: monotonic s, its first image joined the running batch
    denoised_at: float  #: monotonic s, its last image took its last step
    device_s: float = 0.0  #: its share of the time of the steps that its images have taken
    reached: Approximation = EXACT  #: what was really left out
    #: By K of 50, for others to begin at.
    left: Mapping[int, KeptLatent] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SecondOpening:
    """What an image is opened with once its first pass is over."""

    request: JobRequest  #: of the second pass alone
    brought: JobInputs  #: the image, scaled up, beside the words that the job has learned


@dataclass(slots=True, kw_only=True, eq=False)
class Ticket:
    """One job in the engine, from `add` until its future is resolved."""

    job: Job
    runner: AnyRunner  #: the resident model that makes it
    due_at: float  #: epoch s by the store's clock, its rank among the others
    deadline: float | None  #: monotonic s; later than that it is not made
    brought: JobInputs | None = None  #: pictures, or latents to go on from
    #: Where its images stood with another worker, by index; each is gone on from once.
    states: MutableMapping[int, ImageState] = field(default_factory=dict)
    future: "Future[JobImages]" = field(default_factory=Future)
    images: dict[int, Pixels] = field(default_factory=dict)  #: finished ones, by index
    reached: list[Approximation] = field(default_factory=list)  #: of each of them
    left: Mapping[int, KeptLatent] = field(default_factory=dict)  #: by its first image
    device_s: float = 0.0  #: its share of the time of the steps that its images have taken
    steps_done: float = 0.0  #: sum of the shares of its images' schedules that are over, in [0, n]
    admitted_at: float = 0.0  #: monotonic s
    denoised_at: float = 0.0  #: monotonic s
    is_as_profiled: bool = field(init=False)  #: its steps say how fast the device is
    stopped: JobStopped | None = None  #: set by any thread; the engine obeys before its next step
    is_closed: bool = False  #: its future is resolved; what is left of it is dropped
    encode: Callable[[], object] | None = None  #: encodes its prompt; None: nothing is to be done
    encoded: "Future[None] | None" = None  #: done once a thread has encoded it; None: none does
    loads: bool = False  #: that thread loads its IP-Adapter, too: nobody else waits for it
    steps_missed: int = 0  #: that others took while its prompt was encoded

    def __post_init__(self) -> None:
        has_whole_steps = self.approximation.has_whole_steps
        is_usual = is_as_profiled(Use.PACE, self.job.request, self.runner.model)
        self.is_as_profiled = is_usual and has_whole_steps

    @property
    def approximation(self) -> Approximation:
        """What its level leaves out."""
        return self.job.placement.approximation

    def open(self, seed: int, again: SecondOpening | None = None) -> Sample:
        """Open one of its images, or open it again, made as its level says."""
        asked, brought = (again.request, again.brought) if again else (self.request, self.brought)
        sample: Sample = self.runner.open(asked, seed, brought)
        approximation = self.approximation
        if approximation != EXACT and not approximation.needs_latents:
            self.runner.approximate(sample, approximation)
        return sample

    @property
    def request(self) -> JobRequest:
        """What it asks for, in its first pass."""
        return self.job.request

    @property
    def is_loading(self) -> bool:
        """Whether its IP-Adapter is being loaded."""
        return self.loads and self.encoded is not None and not self.encoded.done()

    @property
    def share_left(self) -> float:
        """Sum of the shares of its images' schedules that are left."""
        return self.job.request.n - self.steps_done

    @property
    def progress(self) -> Progress:
        """Mean over its images, in denoising steps as the client counts them.

        Steps that are skipped are over from the start: a client waits for the others alone.
        """
        request = self.job.request
        done = int(request.steps * self.steps_done / request.n + 1e-6)
        return Progress(step=done, steps=request.steps, device_s=self.device_s)

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
            device_s=self.device_s,
            reached=max(self.reached, key=lambda each: each.share_of_steps),
            left=self.left,
        )


class Tickets:
    """The open tickets by job id, each resolved once. Any method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Ticket] = {}
        self.stopping: set[Ticket] = set()  #: to leave before the next step

    def open(self, ticket: Ticket) -> bool:
        """Take a new job in; say no if it is here already and nobody has stopped it."""
        ticket.future.set_running_or_notify_cancel()
        with self._lock:
            if ticket.job.id in self._open:
                return False
            self._open[ticket.job.id] = ticket
            return True

    def stop(self, job_id: str, reason: JobStopped) -> bool:
        """Mark a job to leave before the next step; say no if it is not here.

        Its id is free for a new claim at once.
        """
        with self._lock:
            ticket = self._open.pop(job_id, None)
            if ticket is not None:
                ticket.stopped = reason
                self.stopping.add(ticket)
            return ticket is not None

    def take_stopped(self) -> list[Ticket]:
        """Return the tickets marked since the last call."""
        with self._lock:
            stopped = list(self.stopping)
            self.stopping.clear()
            return stopped

    def succeed(self, ticket: Ticket, made: JobImages) -> None:
        """Resolve a job with its images."""
        if self._close(ticket):
            ticket.future.set_result(made)

    def fail(self, ticket: Ticket, error: AtelierError) -> None:
        """Resolve a job with the reason why there are no images."""
        if self._close(ticket):
            ticket.future.set_exception(error)

    def _close(self, ticket: Ticket) -> bool:
        with self._lock:
            was_open, ticket.is_closed = not ticket.is_closed, True
            if self._open.get(ticket.job.id) is ticket:
                del self._open[ticket.job.id]
            return was_open

    def fail_all(self, error: EngineError | JobStopped) -> None:
        """Resolve everything that is still open."""
        with self._lock:
            tickets = [*self._open.values(), *self.stopping]
        for ticket in tickets:
            self.fail(ticket, ticket.stopped or error)

    def progress(self) -> Mapping[str, Progress]:
        """How far each job has come."""
        with self._lock:
            return {job_id: ticket.progress for job_id, ticket in self._open.items()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pending:
    """One image that waits for a slot."""

    ticket: Ticket
    index: int  #: which image of the job
    again: SecondOpening | None = None  #: in its second pass

    @property
    def request(self) -> JobRequest:
        """What this pass of it asks for."""
        return self.again.request if self.again is not None else self.ticket.request

    @property
    def brought(self) -> JobInputs | None:
        """What this pass of it is made from."""
        return self.again.brought if self.again is not None else self.ticket.brought

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
    kept_step: int = 0  #: of these, until it was last written down where it stands
    again: SecondOpening | None = None  #: in its second pass
    whole_steps: float = field(init=False)  #: what all of its schedule costs, in model steps
    takes_whole_steps: bool = field(init=False)  #: its steps say how long the model's take
    group: Group = field(init=False)  #: what those have in common who may share a step
    order: tuple[float, str, int] = field(init=False)  #: among them, who is due first
    _step_share: float = field(init=False)  #: of the schedule that one step is

    def __post_init__(self) -> None:
        sample, reached = self.sample, self.sample.reached
        left = (1 - reached.head_start) * self.pass_share
        self.whole_steps = sample.num_steps * reached.step_cost / left
        self.takes_whole_steps = reached.has_whole_steps
        self.group = (id(self.ticket.runner), *sample.group)
        self.order = (self.ticket.due_at, self.ticket.job.id, self.index)
        self._step_share = left / max(1, sample.num_steps)
        self.step = self.kept_step = self.step + sample.taken

    @property
    def rows(self) -> int:
        return self.sample.rows

    @property
    def request(self) -> JobRequest:
        """What this pass of it asks for."""
        return self.again.request if self.again is not None else self.ticket.request

    @property
    def pass_share(self) -> float:
        """Which part of the time of the image this pass takes, in (0, 1]."""
        whole = self.ticket.request
        first = whole.strength / whole.share
        return first if self.again is None else 1 - first

    def note_begin(self) -> None:
        """Count the steps that it does not take, or that another worker has taken."""
        skipped = 1.0 if self.is_finished else self.sample.reached.head_start
        self.ticket.steps_done += skipped * self.pass_share + self.step * self._step_share

    def charge(self, seconds: float) -> None:
        """Put time of the device on the account of its job."""
        self.ticket.device_s += seconds

    def note_step(self) -> None:
        """Count a step."""
        self.step += 1
        self.ticket.steps_done += self._step_share

    def hand_over(self, pixels: Pixels) -> None:
        """Give its job a finished image."""
        self.ticket.images[self.index] = pixels
        self.ticket.reached.append(self.sample.reached)
        if self.index == 0:
            self.ticket.left = self.sample.left

    @property
    def is_finished(self) -> bool:
        return self.step >= self.sample.num_steps


def alone(doing: str, image: Pending | Slot) -> Activity:
    """Describe what is done to one image: it is opened, or decoded."""
    request, ticket = image.request, image.ticket
    return Activity(
        doing=doing,
        model=ticket.runner.model,
        shape=(request.height, request.width, request.task),
        rows=1,
        pixels=request.width * request.height,
        jobs=(ticket.job.id,),
        is_steered=bool(request.controls),
    )
