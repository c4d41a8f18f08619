"""Job executor: claim a job, run it in the engine, store its images, record its outcome.

The job executor claims jobs, hands them to the engine, has their images stored, and writes how
they ended. It knows nothing of Celery. Only the holder of the last fence writes; whatever was made
for an older one is deleted unseen.
"""

import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Protocol

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from core.errors import (
    EngineError,
    JobCanceled,
    JobExpired,
    JobStopped,
    LeaseLost,
    StoreUnavailable,
)
from core.job import Job, JobRequest, JobStatus, StoredImage
from core.log import get_logger
from storage.jobs.leases import Leases, Outcome
from worker.diffusion.runner import Brought
from worker.engine.engine import EngineStats, Made
from worker.jobs.admission import Admission
from worker.jobs.claimed import ClaimedJob, Ending, Result, outcome_of
from worker.jobs.retry import End, persist

log = get_logger(__name__)

#: How long a place that fails is asked again: the store to take an outcome, CPU processes and the
#: object store to read what a job brings or to take its images. A deadline may end it sooner.
PATIENCE_S = 600.0
#: How long a shutdown waits for that.
CLOSE_S = 30.0


class JobEngine(Protocol):
    """What a maker needs of the engine."""

    def add(
        self, job: Job, deadline: float | None, brought: Brought | None = None
    ) -> "Future[Made]": ...
    def stop(self, job_id: str, reason: JobStopped) -> None: ...
    def stats(self) -> EngineStats: ...
    def left_s(self) -> Mapping[str, float]: ...


class ImageStore(Protocol):
    """What a maker needs of the processes that read and store images."""

    def get(self, job: Job) -> "Future[Brought | None] | None": ...
    def put(self, prefix: str, made: Made) -> "Future[tuple[StoredImage, ...]]": ...
    def delete(self, keys: Sequence[str]) -> None: ...


class JobExecutor:
    """Takes jobs by id and sees each to its end. Every method may be called from any thread."""

    def __init__(
        self,
        *,
        leases: Leases,
        engine: JobEngine,
        images: ImageStore,
        prefetch: Callable[[JobRequest], object] = lambda request: None,
        die: Callable[[], object],
        observe: Callable[[Job, float], object],
        lend: Callable[[Job, Made], object] = lambda job, made: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Prepare a maker; `lend` is given what is known of each job whose images are delivered."""
        self._leases = leases
        self._engine = engine
        self._images = images
        self._prefetch = prefetch
        self._die = die
        self._observe = observe
        self._lend = lend
        self._patience_s = patience_s
        self._held: dict[str, ClaimedJob] = {}
        self._admission = Admission()
        self._claiming = (
            threading.Lock()
        )  #: held from a claim until its job waits for its turn, or is in the engine, or what it
        #: brings is asked for
        self._results: SimpleQueue[Result | ClaimedJob | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._finish_all, name="finisher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the finisher once it has written what it has, if the store takes it in time."""
        self._results.put(None)
        self._thread.join(CLOSE_S)

    def take(self, job_id: str, on_end: Callable[[Ending], None]) -> bool:
        """Claim a job and start making it; say no if it is not to be made here and now.

        Raises:
            StoreUnavailable: nobody knows; its lease or upkeep brings it back.
        """
        with self._claiming:
            claim = self._leases.claim(job_id)
            if claim is None:
                return False
            self._drop(self._held.get(job_id))  # our own claim before a stall, void by now
            held = ClaimedJob(claim=claim, taken_at=time.time(), on_end=on_end)
            self._held[job_id] = held
            self._admission.add(held)
            begun = self._admit()
        _follow(begun)
        return True

    def _bring(self, held: ClaimedJob) -> "Future[Brought | None] | None":
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

    def refuse(self, job_id: str) -> None:
        """Cancel a job nobody has claimed, because an operator revoked it."""
        claim = self._leases.claim(job_id)
        if claim is not None:
            self._leases.finish(job_id, claim.fence, Outcome(status=JobStatus.CANCELED))

    def stop(self, job_id: str, reason: JobStopped) -> None:
        """Make a job leave before its next step; its record gets to say so."""
        with self._claiming:
            held = self._held.get(job_id)
            if held is None or not self._admission.withdraw(held):
                self._engine.stop(job_id, reason)
            else:
                self._results.put(Result(held=held, error=reason))

    def check(self, job_id: str) -> None:
        """Drop a job if its record has moved on, as the store has just told us it did."""
        with self._claiming:
            held = self._held.get(job_id)
        if held is not None and self._leases.beat({job_id: held.claim.fence}):
            self.lose(job_id, held.claim.fence)

    def lose(self, job_id: str, fence: int) -> None:
        """Drop a job that this claim no longer owns: canceled, expired, or somebody else's."""
        with self._claiming:  # or the next claim of this job would be stopped in its place
            held = self._held.get(job_id)
            if held is not None and held.claim.fence == fence:
                self._drop(held)

    def _drop(self, held: ClaimedJob | None) -> None:
        if held is None:
            return
        held.is_void = True
        if self._admission.withdraw(held):
            self._results.put(_lost(held))
        else:
            self._engine.stop(held.claim.job.id, JobCanceled("this claim owns the job no more"))

    def _admit(self) -> list[Callable[[], None]]:
        """Begin what may begin; the lock is held. Call what this returns once it is not."""
        begun = []
        while (held := self._admission.take()) is not None:
            try:
                begun.append(self._begin(held))
            except Exception as error:
                log.exception("not_begun", job=held.claim.job.id)
                self._results.put(Result(held=held, error=error))
        return begun

    def _begin(self, held: ClaimedJob) -> Callable[[], None]:
        job = held.claim.job
        if not held.is_void and job.is_suspect:
            held.is_void = not self._isolate(held)
        if held.is_void:
            return partial(self._results.put, _lost(held))
        brought = self._bring(held)
        if brought is not None or job.request.loras:
            self._prefetch(job.request)
        if brought is not None:
            return partial(brought.add_done_callback, partial(self._receive_brought, held))
        made = self._engine.add(job, held.deadline)
        return partial(made.add_done_callback, partial(self._receive_made, held))

    def _isolate(self, held: ClaimedJob) -> bool:
        """Say in the record that a suspect is alone here, before anything is done for it."""
        job = held.claim.job
        try:
            is_ours = self._leases.isolate(job.id, held.claim.fence)
        except StoreUnavailable as error:  # its lease brings it back
            log.warning("suspect_not_begun", job=job.id, reason=str(error))
            return False
        log.info("suspect_begun", job=job.id, is_ours=is_ours)
        return is_ours

    def _let_in(self) -> None:
        with self._claiming:
            begun = self._admit()
        _follow(begun)

    def let_go(self) -> int:
        """Give every job back to its queue at once, and stop making them."""
        return self._give_back(dict(self._held))

    def let_go_late(self, within_s: float) -> set[str]:
        """Give back at once what will not be made in so long; return the ids of these jobs."""
        left_s = self._engine.left_s()
        late = {
            job_id: held
            for job_id, held in dict(self._held).items()
            if not held.is_made and left_s.get(job_id, math.inf) > within_s
        }
        self._give_back(late)
        return set(late)

    def _give_back(self, held: Mapping[str, ClaimedJob]) -> int:
        for each in held.values():
            each.is_void = True
        released = self._leases.release({i: h.claim.fence for i, h in held.items()})
        for job_id in held:
            self._engine.stop(job_id, JobStopped("the worker is shutting down"))
        return released

    def abandon(self, suspects: Collection[str]) -> None:
        """Hand everything on because this worker hangs: what it hangs in as a worker's death would.

        The others go back as at a shutdown. The engine is not asked: it would not answer.
        """
        held = {job_id: each.claim.fence for job_id, each in dict(self._held).items()}
        self._leases.release({i: fence for i, fence in held.items() if i not in suspects})
        self._leases.forfeit({i: fence for i, fence in held.items() if i in suspects})

    def fences(self) -> dict[str, int]:
        """The jobs whose leases must be kept alive."""
        return {job_id: held.claim.fence for job_id, held in dict(self._held).items()}

    def unmade(self) -> list[Job]:
        """The jobs that the engine has, or is to get."""
        held = list(self._held.values())
        return [each.claim.job for each in held if not each.is_made and not each.is_void]

    def num_finishing(self) -> int:
        """How many jobs have left the engine and are not ended yet."""
        return sum(held.is_made for held in list(self._held.values()))

    # from the image store's threads and the engine's

    def _receive_brought(self, held: ClaimedJob, future: "Future[Brought | None]") -> None:
        error = future.exception()
        if error is not None:
            self._note_made(held)
            self._results.put(Result(held=held, error=_as_exception(error)))
            return
        with self._claiming:
            if held.is_void:  # stopped before the engine knew it
                made = _nothing_made()
            else:
                made = self._engine.add(held.claim.job, held.deadline, future.result())
        made.add_done_callback(partial(self._receive_made, held))

    def _receive_made(self, held: ClaimedJob, future: "Future[Made]") -> None:
        self._note_made(held)
        error = future.exception()
        if isinstance(error, EngineError) and not self._engine.stats().is_alive:
            self._die()  # its jobs go back when their leases run out
        if error is not None or held.is_void:
            self._results.put(Result(held=held, error=_as_exception(error)))
            return
        made = future.result()
        put = partial(self._images.put, held.prefix, made)
        storing = persist(put(), put, self._end_for(held))
        storing.add_done_callback(partial(self._receive_stored, held, made))

    def _note_made(self, held: ClaimedJob) -> None:
        held.is_made = True
        if self._admission.has_waiting:  # a suspect may begin
            self._results.put(held)

    def _receive_stored(
        self, held: ClaimedJob, made: Made, future: "Future[tuple[StoredImage, ...]]"
    ) -> None:
        error = future.exception()
        if error is not None:
            self._results.put(Result(held=held, error=_as_exception(error)))
        else:
            self._results.put(Result(held=held, made=made, images=future.result()))

    # from the finisher's thread

    def _finish_all(self) -> None:
        while (result := self._results.get()) is not None:
            if isinstance(result, ClaimedJob):
                self._let_in()
                continue
            try:
                ending = self._finish(result)
            except Exception as error:
                log.exception("finish_failed", job=result.held.claim.job.id)
                ending = Ending(error=error)
            self._end(result.held, ending)

    def _finish(self, result: Result) -> Ending:
        held = result.held
        outcome = outcome_of(result)
        is_ours = not held.is_void and self._write(held, outcome)
        log.debug("job_ended", job=held.claim.job.id, status=outcome.status, is_ours=is_ours)
        if is_ours and result.error is None:
            self._observe(held.claim.job, held.total_s())
            if result.made is not None:
                self._lend(held.claim.job, result.made)
            return Ending(images=len(result.images))
        if not is_ours and result.images:
            self._images.delete([image.key for image in result.images])
        return Ending(error=result.error or LeaseLost("another claim owns this job by now"))

    def _write(self, held: ClaimedJob, outcome: Outcome) -> bool:
        """Offer the outcome until the store says yes or no: a lost answer may have been a yes."""
        job_id, fence = held.claim.job.id, held.claim.fence
        for attempt in Retrying(
            retry=retry_if_exception_type(StoreUnavailable),
            wait=wait_random_exponential(0.05, max=1.0),
            stop=stop_after_delay(PATIENCE_S),
            reraise=True,
        ):
            with attempt:
                return self._leases.finish(job_id, fence, outcome)
        return False

    def _end(self, held: ClaimedJob, ending: Ending) -> None:
        with self._claiming:
            if self._held.get(held.claim.job.id) is held:
                del self._held[held.claim.job.id]
            self._admission.end(held)
        self._let_in()
        try:
            held.on_end(ending)
        except Exception:
            log.exception("on_end_failed", job=held.claim.job.id)


def _follow(begun: Sequence[Callable[[], None]]) -> None:
    for follow in begun:
        follow()


def _lost(held: ClaimedJob) -> Result:
    return Result(held=held, error=JobCanceled("this claim owns the job no more"))


def _nothing_made() -> "Future[Made]":
    made: Future[Made] = Future()
    made.set_exception(JobCanceled("this claim owns the job no more"))
    return made


def _as_exception(error: BaseException | None) -> Exception | None:
    if error is None or isinstance(error, Exception):
        return error
    return EngineError(repr(error))
