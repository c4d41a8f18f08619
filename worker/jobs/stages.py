"""Take a begun job through its stages: read its inputs, run it in the engine, store its images."""

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

from core.errors import (
    EngineError,
    JobCanceled,
    JobExpired,
    JobStopped,
    ProcessLost,
    Unavailable,
)
from core.job import Claim, Job, JobRequest, StoredImage
from core.log import get_logger
from core.request.output import Output
from storage.jobs.leases import Leases
from worker.diffusion.image_state import NO_STATES
from worker.diffusion.runner import JobInputs
from worker.engine.engine import JobImages
from worker.engine.stats import EngineStats
from worker.futures import resolved
from worker.jobs.claimed import ClaimedJob, Result
from worker.jobs.earlier_states import States
from worker.jobs.suspects import isolate

T = TypeVar("T")
log = get_logger(__name__)

#: Pauses between two calls double from the first to the longest; half of each is random.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.4, 5.0

#: Given why the last call failed, says why there must not be another; None: there may.
End = Callable[[Exception], Exception | None]


class JobEngine(Protocol):
    """What jobs need of the engine."""

    def add(
        self,
        job: Job,
        deadline: float | None,
        brought: JobInputs | None = None,
        states: States = NO_STATES,
    ) -> "Future[JobImages]": ...
    def stop(self, job_id: str, reason: JobStopped) -> bool: ...
    def stats(self) -> EngineStats: ...
    def left_s(self) -> Mapping[str, float]: ...


class ImageStore(Protocol):
    """What jobs need of the processes that read and store images."""

    def get(self, job: Job) -> "Future[JobInputs | None] | None": ...
    def put(
        self, prefix: str, made: JobImages, output: Output
    ) -> "Future[tuple[StoredImage, ...]]": ...
    def delete(self, keys: Sequence[str]) -> None: ...


class JobStages:
    """Follows each job from its beginning to its result, on the threads of whoever is done."""

    def __init__(
        self,
        *,
        leases: Leases,
        engine: JobEngine,
        images: ImageStore,
        prefetch: Callable[[JobRequest], object],
        find_states: "Callable[[Claim], Future[States] | None]",
        die: Callable[[], object],
        patience_s: float,
        claiming: threading.Lock,
        on_made: Callable[[ClaimedJob], object],
        on_result: Callable[[Result], None],
    ) -> None:
        """Prepare; `on_made` is told of each job that has left the engine, before its result."""
        self._leases = leases
        self._engine = engine
        self._images = images
        self._prefetch = prefetch
        self._find_states = find_states
        self._die = die
        self._patience_s = patience_s
        self._claiming = claiming
        self._on_made = on_made
        self._on_result = on_result

    def begin(self, held: ClaimedJob) -> Callable[[], None]:
        """Begin a job; `claiming` is held. Call what this returns once it is not."""
        job = held.claim.job
        if not held.is_void and job.is_suspect:
            held.is_void = not isolate(self._leases, held)
        if held.is_void:
            return partial(self._on_result, Result.lost(held))
        brought, states = self._bring(held), self._find_states(held.claim)
        if brought is not None or job.request.loras:
            self._prefetch(job.request)
        if brought is not None or states is not None:
            return partial(
                (brought or resolved(None)).add_done_callback,
                partial(self._receive_brought, held, states or resolved(NO_STATES)),
            )
        made = self._engine.add(job, held.deadline)
        return partial(made.add_done_callback, partial(self._receive_made, held))

    def _bring(self, held: ClaimedJob) -> "Future[JobInputs | None] | None":
        """Have read what a job brings along; None if that is nothing."""
        job = held.claim.job
        asked = self._images.get(job)
        if asked is None:
            return None
        return persist(asked, lambda: self._images.get(job) or asked, self._end_for(held))

    def _end_for(self, held: ClaimedJob) -> End:
        """Say when it is no use to try again what a job needs: it has ended, or waited too long."""
        until = time.monotonic() + self._patience_s

        def end(error: Exception) -> Exception | None:
            if held.is_void:
                return JobCanceled("this claim owns the job no more")
            if held.deadline is not None and held.deadline <= time.time():
                return JobExpired(f"its deadline passed while it waited: {error}")
            return error if time.monotonic() >= until else None

        return end

    def _receive_brought(
        self, held: ClaimedJob, states: "Future[States]", brought: "Future[JobInputs | None]"
    ) -> None:
        states.add_done_callback(partial(self._enter, held, brought))

    def _enter(
        self, held: ClaimedJob, brought: "Future[JobInputs | None]", states: "Future[States]"
    ) -> None:
        """Have the engine make a job, once all is there that it begins with."""
        error = brought.exception()
        if error is not None:
            self._on_made(held)
            self._on_result(Result(held=held, error=_as_exception(error)))
            return
        with self._claiming:
            if held.is_void:  # stopped before the engine knew it
                made = _nothing_made()
            else:
                made = self._engine.add(
                    held.claim.job, held.deadline, brought.result(), states.result()
                )
        made.add_done_callback(partial(self._receive_made, held))

    def _receive_made(self, held: ClaimedJob, future: "Future[JobImages]") -> None:
        self._on_made(held)
        error = future.exception()
        if isinstance(error, EngineError) and not self._engine.stats().is_alive:
            self._die()  # its jobs go back when their leases run out
        if error is not None or held.is_void:
            self._on_result(Result(held=held, error=_as_exception(error)))
            return
        made = future.result()
        put = partial(self._images.put, held.prefix, made, held.claim.job.request.output)
        storing = persist(put(), put, self._end_for(held))
        storing.add_done_callback(partial(self._receive_stored, held, made))

    def _receive_stored(
        self, held: ClaimedJob, made: JobImages, future: "Future[tuple[StoredImage, ...]]"
    ) -> None:
        error = future.exception()
        if error is not None:
            self._on_result(Result(held=held, error=_as_exception(error)))
        else:
            self._on_result(Result(held=held, made=made, images=future.result()))


def _nothing_made() -> "Future[JobImages]":
    made: Future[JobImages] = Future()
    made.set_exception(JobCanceled("this claim owns the job no more"))
    return made


def _as_exception(error: BaseException | None) -> Exception | None:
    if error is None or isinstance(error, Exception):
        return error
    return EngineError(repr(error))


def persist(asked: "Future[T]", ask: "Callable[[], Future[T]]", end: End) -> "Future[T]":
    """Wait for a call; where the place has failed it, not the job, `ask` again until `end`.

    Raises: nothing; the future gets what the call raises on the job's account, or `end` gives.
    """
    trials = _Trials(ask=ask, end=end)
    asked.add_done_callback(trials.receive)
    return trials.answer


@dataclass(slots=True, kw_only=True, eq=False)
class _Trials(Generic[T]):
    """One call, however often it is made."""

    ask: "Callable[[], Future[T]]"
    end: End
    answer: "Future[T]" = field(default_factory=Future)
    pause_s: float = FIRST_PAUSE_S

    def receive(self, asked: "Future[T]") -> None:
        error = asked.exception()
        if error is None:
            self.answer.set_result(asked.result())
        elif isinstance(error, Unavailable | ProcessLost):
            self._wait(error)
        else:
            self.answer.set_exception(error)

    def _wait(self, error: Exception) -> None:
        if (reason := self.end(error)) is not None:
            self.answer.set_exception(reason)
            return
        log.warning("asked_again", reason=f"{type(error).__name__}: {error}")
        timer = threading.Timer(self.pause_s * random.uniform(0.5, 1.0), self._again, [error])
        self.pause_s = min(2 * self.pause_s, LONGEST_PAUSE_S)
        timer.daemon = True
        timer.start()

    def _again(self, error: Exception) -> None:
        if (reason := self.end(error)) is not None:
            self.answer.set_exception(reason)
        else:
            self.ask().add_done_callback(self.receive)
