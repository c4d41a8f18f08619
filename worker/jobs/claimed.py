"""State of claimed jobs: in which order they begin, and how each ends, for the record and Celery.

Imports no torch.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from core.errors import AtelierError, EngineError, JobCanceled, JobExpired, Unavailable
from core.job import Claim, Failure, JobStatus, StoredImage, Timing
from storage.jobs.leases import Outcome
from worker.engine.slot import JobImages


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnding:
    """How a job ended for this worker."""

    images: int = 0  #: stored
    error: Exception | None = None  #: why there are none


_endings: dict[str, JobEnding] = {}


def leave(task_id: str, ending: JobEnding) -> None:
    """Keep how a job ended for the body of its Celery task, which is run once it has.

    So events, signals and runtimes are those of Celery's own tracer.
    """
    _endings[task_id] = ending


def take(task_id: str) -> int:
    """Return how many images a job has got, once.

    Raises:
        Exception: why the job was not made.
        EngineError: nobody has made it: this worker runs no engine.
    """
    ending = _endings.pop(task_id, JobEnding(error=EngineError("this worker runs no engine")))
    if ending.error is not None:
        raise ending.error
    return ending.images


@dataclass(slots=True, kw_only=True, eq=False)
class ClaimedJob:
    """A job this worker has claimed and not ended yet."""

    claim: Claim
    taken_at: float  #: epoch s, this worker's clock
    on_end: Callable[[JobEnding], None]  #: called once, from the finisher's thread
    is_void: bool = False  #: the record has moved on: write nothing
    is_made: bool = False  #: it has left the engine
    made_at: float = 0.0  #: when it did, epoch s

    @property
    def prefix(self) -> str:
        job = self.claim.job
        return f"{job.tenant}/{job.id}/{self.claim.fence}"

    @property
    def deadline(self) -> float | None:
        """Its deadline on this worker's clock: the claim was on both. Epoch s."""
        job = self.claim.job
        if job.deadline_at is None or job.started_at is None:
            return job.deadline_at
        return self.taken_at + job.deadline_at - job.started_at

    def total_s(self) -> float:
        """Seconds since it was accepted: its wait by the store's clock, the rest by ours."""
        job = self.claim.job
        waited_s = job.started_at - job.waits_since if job.started_at is not None else 0.0
        return waited_s + time.time() - self.taken_at


class Admission:
    """Who may begin, in the order of their claims: suspects alone, all others side by side.

    A job is a suspect if a worker was lost while it made it. It waits until what began before it is
    made, and what comes after it waits until it has ended: neither can wait for ever. Not
    thread-safe: it belongs to the executor's lock.
    """

    def __init__(self) -> None:
        self._waiting: deque[ClaimedJob] = deque()
        self._begun: set[ClaimedJob] = set()

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def add(self, held: ClaimedJob) -> None:
        """Let a job wait for its turn."""
        self._waiting.append(held)

    def take(self) -> ClaimedJob | None:
        """Return the next job that may begin now, if there is one."""
        if not self._waiting or not self._may_begin(self._waiting[0]):
            return None
        held = self._waiting.popleft()
        self._begun.add(held)
        return held

    def withdraw(self, held: ClaimedJob) -> bool:
        """Take out a job that waits; say no if it has begun or ended."""
        is_waiting = held in self._waiting
        if is_waiting:
            self._waiting.remove(held)
        return is_waiting

    def end(self, held: ClaimedJob) -> None:
        """Note that nothing is left to do for a job."""
        self._begun.discard(held)

    def _may_begin(self, held: ClaimedJob) -> bool:
        if any(each.claim.job.is_suspect for each in self._begun):
            return False
        return not held.claim.job.is_suspect or all(each.is_made for each in self._begun)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the engine and the image store gave for one job."""

    held: ClaimedJob
    made: JobImages | None = None
    images: tuple[StoredImage, ...] = ()
    error: Exception | None = None

    @classmethod
    def lost(cls, held: ClaimedJob) -> "Result":
        """Say that the record of a job has moved on."""
        return cls(held=held, error=JobCanceled("this claim owns the job no more"))


def outcome_of(result: Result) -> Outcome:
    """Say in the record's words what became of a job."""
    if result.error is None and result.made is not None:
        timing = _timing(result.held, result.made)
        placed = result.held.claim.job.placement
        reached = placed.reached(result.made.reached)
        return Outcome(
            status=JobStatus.SUCCEEDED,
            images=result.images,
            placement=None if reached == placed else reached,
            timing=timing,
            device_s=result.made.device_s,
        )
    if isinstance(result.error, JobCanceled):
        return Outcome(status=JobStatus.CANCELED)
    if isinstance(result.error, JobExpired):
        return Outcome(status=JobStatus.EXPIRED)
    return Outcome(status=JobStatus.FAILED, failure=failure_of(result.error))


def failure_of(error: Exception | None) -> Failure:
    """Say to a client why a job was not made. Unforeseen errors stay in the log."""
    if isinstance(error, EngineError):
        return Failure(type=error.type, title="The image could not be made", detail=str(error))
    if isinstance(error, Unavailable):
        title = f"The {error.dependency} did not answer in time"
        return Failure(type=f"{error.dependency}_unavailable", title=title, detail=str(error))
    if isinstance(error, AtelierError):
        return Failure(type="stopped", title="The job was stopped", detail=str(error))
    return Failure(type="internal_error", title="The image could not be made")


def _timing(held: ClaimedJob, made: JobImages) -> Timing:
    """Waiting and total time are the store's to tell: it keeps both ends of them."""
    return Timing(
        prepare_s=round(max(made.admitted_at - held.taken_at, 0.0), 4),
        denoise_s=round(made.denoised_at - made.admitted_at, 4),
        finish_s=round(time.time() - made.denoised_at, 4),
    )
