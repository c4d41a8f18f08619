"""Claim jobs, have each made and stored, stop them.

It knows nothing of Celery. Only the holder of the last fence writes; whatever was made for an older
one is deleted unseen.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Protocol

from core.errors import EngineError, JobCanceled, JobStopped
from core.job import Claim, Job, JobRequest, JobStatus, StoredImage
from core.log import get_logger, log_errors
from core.request.output import Output
from storage.jobs.leases import Leases, Outcome
from worker.diffusion.image_state import NO_STATES
from worker.diffusion.runner import JobInputs
from worker.engine.engine import Engine
from worker.engine.slot import JobImages
from worker.futures import failed, resolved, tried
from worker.jobs.claimed import ClaimedJob, Finisher, JobEnding, KeepsStates, Result
from worker.jobs.earlier_states import States
from worker.jobs.hand_over import HandOver
from worker.jobs.patience import PlaceFailed, persist
from worker.jobs.suspects import isolate, may_begin

Stored = tuple[StoredImage, ...]

log = get_logger(__name__)

#: How long a place that fails is asked again: CPU processes and the object store to read what a job
#: brings or to take its images. A deadline may end it sooner.
PATIENCE_S = 600.0


class ImageStore(Protocol):
    """What jobs need of the processes that read and store images."""

    def get(self, job: Job) -> "Future[JobInputs | None] | None": ...
    def put(self, prefix: str, made: JobImages, output: Output) -> "Future[Stored]": ...
    def delete(self, keys: Sequence[str]) -> None: ...


class JobExecutor:
    """Takes jobs by id and sees each to its end. Every method may be called from any thread."""

    def __init__(
        self,
        *,
        leases: Leases,
        engine: Engine,
        images: ImageStore,
        prefetch: Callable[[JobRequest], object] = lambda request: None,
        die: Callable[[], object],
        observe: Callable[[Job, float], object],
        lend: Callable[[Job, JobImages], object] = lambda job, made: None,
        states: KeepsStates | None = None,
        find_states: "Callable[[Claim], Future[States] | None]" = lambda claim: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Prepare; `lend` is given what is known of each job whose images are delivered.

        `states` keeps where images stand, `find_states` finds where those of a job stood that
        another worker has begun.
        """
        self._leases = leases
        self._engine = engine
        self._images = images
        self._prefetch = prefetch
        self._die = die
        self._find_states = find_states
        self._patience_s = patience_s
        self._held: dict[str, ClaimedJob] = {}
        self._waiting: deque[ClaimedJob] = deque()  #: for their turn, in the order of their claims
        self._begun: set[ClaimedJob] = set()  #: and not ended
        #: Held from a claim until its job waits for its turn, or is in the engine, or what it
        #: brings is asked for.
        self._claiming = threading.Lock()
        self.hand_over = HandOver(held=self._held, leases=leases, engine=engine, states=states)
        self._finisher = Finisher(
            leases=leases,
            delete=images.delete,
            observe=observe,
            lend=lend,
            states=states,
            on_ended=self._end,
        )

    def start(self) -> None:
        self._finisher.start()

    def close(self) -> None:
        """End the finisher once it has written what it has, if the store takes it in time."""
        self._finisher.close()

    def take(
        self,
        job_id: str,
        on_end: Callable[[JobEnding], None],
        rung: str = "",
        on_left: Callable[[], None] = lambda: None,
    ) -> str | None:
        """Claim the job whose turn it is where a message names one, and start making it.

        Returns its id; None: nothing is to be made here and now. `rung` names the queue, where
        messages stand for that alone; `on_left` hears when another may have its slots.

        Raises:
            StoreUnavailable: nobody knows; its lease or upkeep brings it back.
        """
        with self._claiming:
            claim = self._leases.claim(job_id, rung=rung)
            if claim is None:
                return None
            taken = claim.job.id
            self._drop(self._held.get(taken))  # our own claim before a stall, void by now
            held = ClaimedJob(
                claim=claim, taken_at=time.monotonic(), on_end=on_end, on_left=on_left
            )
            self._held[taken] = held
            self._waiting.append(held)
            begun = self._admit()
        for follow in begun:
            follow()
        return taken

    def refuse(self, job_id: str) -> None:
        """Cancel a job nobody has claimed, because an operator revoked it."""
        claim = self._leases.claim(job_id, is_exact=True)
        if claim is not None:
            self._leases.finish(job_id, claim.fence, Outcome(status=JobStatus.CANCELED))

    def stop(self, job_id: str, reason: JobStopped) -> None:
        """Make a job leave before its next step; its record gets to say so."""
        with self._claiming:
            held = self._held.get(job_id)
            if held is not None and self._withdraw(held):
                self._finisher.finish(Result(held=held, error=reason))
            elif not self._engine.stop(job_id, reason) and held is not None:
                held.stopped = reason  # the engine is to get it yet, or has had it

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

    def fences(self) -> dict[str, int]:
        """The jobs whose leases must be kept alive."""
        return {job_id: held.claim.fence for job_id, held in dict(self._held).items()}

    def unmade(self) -> list[Job]:
        """The jobs that the engine has, or is to get."""
        held = list(self._held.values())
        return [each.claim.job for each in held if not each.is_made and not each.is_void]

    def num_in_slots(self) -> int:
        """How many jobs have slots, or are to get some."""
        held = list(self._held.values())
        return sum(not (each.has_left or each.is_void) for each in held)

    def num_finishing(self) -> int:
        """How many jobs need no slot any more and are not ended yet."""
        return sum(held.has_left for held in list(self._held.values()))

    def note_left(self, job_id: str) -> None:
        """Let another job be claimed for the slots of one whose images are decoded from now on."""
        held = self._held.get(job_id)
        if held is not None:
            held.has_left = True
            with log_errors(log, "on_left_failed", job=job_id):  # it must not reach the engine
                held.on_left()

    def _drop(self, held: ClaimedJob | None) -> None:
        if held is None:
            return
        held.is_void = True
        if self._withdraw(held):
            self._finisher.finish(Result.lost(held))
        else:
            self._engine.stop(held.claim.job.id, JobCanceled("this claim owns the job no more"))

    def _withdraw(self, held: ClaimedJob) -> bool:
        """Take out a job that waits for its turn; say no if it has begun or ended."""
        is_waiting = held in self._waiting
        if is_waiting:
            self._waiting.remove(held)
        return is_waiting

    def _admit(self) -> list[Callable[[], None]]:
        """Begin what may begin; the lock is held. Call what this returns once it is not."""
        begun = []
        while self._waiting and may_begin(self._waiting[0], self._begun):
            held = self._waiting.popleft()
            self._begun.add(held)
            follow = tried(partial(self._begin, held))
            if isinstance(follow, Exception):  # it fails this job, and lets the next begin
                log.error("not_begun", job=held.claim.job.id, exc_info=follow)
                self._finisher.finish(Result(held=held, error=follow))
            else:
                begun.append(follow)
        return begun

    def _let_in(self) -> None:
        with self._claiming:
            begun = self._admit()
        for follow in begun:
            follow()

    def _begin(self, held: ClaimedJob) -> Callable[[], None]:
        """Begin a job; the lock is held. Call what this returns once it is not."""
        job = held.claim.job
        if not held.is_void and job.is_suspect:
            held.is_void = not isolate(self._leases, held)
        if held.is_void:
            return partial(self._finisher.finish, Result.lost(held))
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
        end = partial(held.give_up, time.monotonic() + self._patience_s)
        return persist(asked, lambda: self._images.get(job) or asked, end)

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
            self._note_made(held)
            self._finisher.finish(Result(held=held, error=_as_exception(error)))
            return
        made: Future[JobImages]
        with self._claiming:
            if held.is_void:  # before the engine knew it
                made = failed(JobCanceled("this claim owns the job no more"))
            elif held.stopped is not None:
                made = failed(held.stopped)
            else:
                made = self._engine.add(
                    held.claim.job, held.deadline, brought.result(), states.result()
                )
        made.add_done_callback(partial(self._receive_made, held))

    def _receive_made(self, held: ClaimedJob, future: "Future[JobImages]") -> None:
        self._note_made(held)
        error = future.exception()
        if isinstance(error, EngineError) and not self._engine.stats().is_alive:
            self._die()  # its jobs go back when their leases run out
        if error is not None or held.is_void:
            self._finisher.finish(Result(held=held, error=_as_exception(error)))
            return
        self._store(held, future.result())

    def _note_made(self, held: ClaimedJob) -> None:
        held.has_left = held.is_made = True
        held.made_at = time.monotonic()
        if self._waiting:  # a suspect may begin
            self._finisher.call(self._let_in)

    def _store(self, held: ClaimedJob, made: JobImages) -> None:
        """Have the images of a job stored, again and again where the place fails that."""
        put = partial(self._images.put, held.prefix, made, held.claim.job.request.output)
        asked, until = put(), time.monotonic() + self._patience_s

        def receive(stored: "Future[Stored]") -> None:
            if isinstance(stored.exception(), PlaceFailed):
                stored = persist(stored, put, partial(held.give_up, until))
            stored.add_done_callback(partial(self._end_stored, held, made))

        asked.add_done_callback(receive)

    def _end_stored(self, held: ClaimedJob, made: JobImages, stored: "Future[Stored]") -> None:
        error = _as_exception(stored.exception())
        images = stored.result() if error is None else ()
        self._finisher.finish(Result(held=held, made=made, images=images, error=error))

    def _end(self, held: ClaimedJob, ending: JobEnding) -> None:
        with self._claiming:
            if self._held.get(held.claim.job.id) is held:
                del self._held[held.claim.job.id]
            self._begun.discard(held)
        self._let_in()
        with log_errors(log, "on_end_failed", job=held.claim.job.id):
            held.on_end(ending)


def _as_exception(error: BaseException | None) -> Exception | None:
    if error is None or isinstance(error, Exception):
        return error
    return EngineError(repr(error))
