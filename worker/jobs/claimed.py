"""Claimed jobs, and how each ends: for its record, which a thread writes, and for Celery.

Imports no torch.
"""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Protocol

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from core.errors import (
    AtelierError,
    EngineError,
    JobCanceled,
    JobExpired,
    JobHandedOver,
    JobStopped,
    LeaseLost,
    StoreUnavailable,
    Unavailable,
)
from core.job import Claim, Failure, Job, JobStatus, StoredImage, Timing
from core.log import get_logger
from storage.jobs.leases import Leases, Outcome
from worker.engine.slot import JobImages
from worker.futures import tried
from worker.jobs.spans import tell

log = get_logger(__name__)

#: How long a store that fails is asked to take an outcome.
PATIENCE_S = 600.0
#: How long a shutdown waits for that.
CLOSE_S = 30.0


class KeepsStates(Protocol):
    """Who keeps where images stand."""

    def settle(self, job_ids: Collection[str], within_s: float) -> bool:
        """Wait until jobs have left the engine and all is written of them; tell if it is."""
        ...

    def end(self, job_id: str) -> None:
        """Delete what was kept of a job that has ended."""

    def lose(self, job_id: str) -> None:
        """Keep no more of a job that others may go on with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnding:
    """How a job ended for this worker."""

    images: int = 0  #: stored
    error: Exception | None = None  #: why there are none


@dataclass(slots=True, kw_only=True, eq=False)
class ClaimedJob:
    """A job this worker has claimed and not ended yet."""

    claim: Claim
    taken_at: float  #: monotonic s
    on_end: Callable[[JobEnding], None]  #: called once, from the finisher's thread
    #: called when it needs no slot any more, from the engine's thread
    on_left: Callable[[], None] = lambda: None
    has_left: bool = False  #: it needs no slot any more: its images are decoded, or about to be
    is_void: bool = False  #: the record has moved on: write nothing
    stopped: JobStopped | None = None  #: why it must not be made: the engine did not have it
    is_made: bool = False  #: it has left the engine
    made_at: float = 0.0  #: when it did, monotonic s

    @property
    def prefix(self) -> str:
        job = self.claim.job
        return f"{job.tenant}/{job.id}/{self.claim.fence}"

    def keys(self) -> list[str]:
        """Name all that may have been stored of it."""
        request = self.claim.job.request
        return [f"{self.prefix}/{i}.{request.output.ending}" for i in range(request.n)]

    @property
    def deadline(self) -> float | None:
        """Its deadline on a clock that nobody sets: the claim was on the store's and on this one.

        Units: monotonic s
        """
        job = self.claim.job
        if job.deadline_at is None or job.started_at is None:
            return None
        return self.taken_at + job.deadline_at - job.started_at

    def give_up(self, until: float, error: Exception) -> Exception | None:
        """Say why what it needs must not be asked for again: it has ended, or waited too long.

        Units: until monotonic s
        """
        if self.is_void:
            return JobCanceled("this claim owns the job no more")
        if self.stopped is not None and not self.is_made:
            return self.stopped
        if self.deadline is not None and self.deadline <= time.monotonic():
            return JobExpired(f"its deadline passed while it waited: {error}")
        return error if time.monotonic() >= until else None

    def total_s(self) -> float:
        """Seconds since it was accepted: its wait by the store's clock, the rest by ours."""
        job = self.claim.job
        waited_s = job.started_at - job.waits_since if job.started_at is not None else 0.0
        return waited_s + time.monotonic() - self.taken_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the engine and the image store gave for one job."""

    held: ClaimedJob
    made: JobImages | None = None  #: some of it may have been stored, whatever the error
    images: tuple[StoredImage, ...] = ()
    error: Exception | None = None

    @property
    def is_handed_over(self) -> bool:
        """Whether another worker is to make the job."""
        return isinstance(self.error, JobHandedOver)

    @classmethod
    def lost(cls, held: ClaimedJob) -> "Result":
        """Say that the record of a job has moved on."""
        return cls(held=held, error=JobCanceled("this claim owns the job no more"))


class Finisher:
    """A thread that writes outcomes. Every method may be called from any thread."""

    def __init__(
        self,
        *,
        leases: Leases,
        delete: Callable[[Sequence[str]], None],
        observe: Callable[[Job, float], object],
        lend: Callable[[Job, JobImages], object],
        states: KeepsStates | None,
        on_ended: Callable[[ClaimedJob, JobEnding], object],
    ) -> None:
        """Prepare; `on_ended` hears of every result, `observe` and `lend` of delivered images."""
        self._leases = leases
        self._delete = delete
        self._observe = observe
        self._lend = lend
        self._states = states
        self._on_ended = on_ended
        self._waiting: SimpleQueue[Result | Callable[[], object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="finisher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread once it has written what it has, if the store takes it in time."""
        self._waiting.put(None)
        self._thread.join(CLOSE_S)

    def finish(self, result: Result) -> None:
        """Have an outcome written."""
        self._waiting.put(result)

    def call(self, function: Callable[[], object]) -> None:
        """Have something done between two outcomes."""
        self._waiting.put(function)

    def _run(self) -> None:
        while (next_ := self._waiting.get()) is not None:
            if not isinstance(next_, Result):
                next_()
                continue
            ending = tried(partial(self._finish, next_))
            if isinstance(ending, Exception):  # the thread outlives it: others wait for their end
                log.error("finish_failed", job=next_.held.claim.job.id, exc_info=ending)
                ending = JobEnding(error=ending)
            self._on_ended(next_.held, ending)

    def _finish(self, result: Result) -> JobEnding:
        held = result.held
        outcome = outcome_of(result)
        is_ours = not held.is_void and self._write(result, outcome)
        status = "handed_over" if result.is_handed_over else outcome.status
        if held.claim.job.trace:
            _trace(result, status)
        log.debug("job_ended", job=held.claim.job.id, status=status, is_ours=is_ours)
        if self._states is not None:
            self._drop_states(self._states, result, is_ours=is_ours)
        if is_ours and result.error is None:
            self._observe(held.claim.job, held.total_s())
            if result.made is not None:
                self._lend(held.claim.job, result.made)
            return JobEnding(images=len(result.images))
        if result.made is not None:
            self._delete(held.keys())
        return JobEnding(error=result.error or LeaseLost("another claim owns this job by now"))

    def _drop_states(self, states: KeepsStates, result: Result, *, is_ours: bool) -> None:
        """Keep no more of where images stood, unless another worker goes on from there."""
        if is_ours:
            states.end(result.held.claim.job.id)
        elif not (result.held.is_void and result.is_handed_over):
            states.lose(result.held.claim.job.id)

    def _write(self, result: Result, outcome: Outcome) -> bool:
        """Offer the outcome until the store says yes or no: a lost answer may have been a yes.

        A job that another worker is to make goes back to its queue instead, uncharged.
        """
        job_id, fence = result.held.claim.job.id, result.held.claim.fence
        for attempt in Retrying(
            retry=retry_if_exception_type(StoreUnavailable),
            wait=wait_random_exponential(0.05, max=1.0),
            stop=stop_after_delay(PATIENCE_S),
            reraise=True,
        ):
            with attempt:
                if result.is_handed_over:
                    self._leases.release({job_id: fence})
                    break
                return self._leases.finish(job_id, fence, outcome)
        return False


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


def _trace(result: Result, status: str) -> None:
    held, made, error = result.held, result.made, result.error
    times = {"taken_at": held.taken_at, "made_at": held.made_at}
    tell(held.claim.job, status, made=made, error=error, **times)


def _timing(held: ClaimedJob, made: JobImages) -> Timing:
    """Waiting and total time are the store's to tell: it keeps both ends of them."""
    return Timing(
        prepare_s=round(max(made.admitted_at - held.taken_at, 0.0), 4),
        denoise_s=round(made.denoised_at - made.admitted_at, 4),
        finish_s=round(time.monotonic() - made.denoised_at, 4),
    )


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
