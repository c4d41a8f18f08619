"""Claim jobs, admit them, stop them, give them back.

It knows nothing of Celery. Only the holder of the last fence writes; whatever was made for an older
one is deleted unseen.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from core.errors import JobCanceled, JobHandedOver, JobStopped
from core.job import Claim, Job, JobRequest, JobStatus
from core.log import get_logger, log_errors
from storage.jobs.leases import Leases, Outcome
from worker.engine.slot import JobImages
from worker.futures import tried
from worker.jobs.claimed import ClaimedJob, Finisher, JobEnding, KeepsStates, Result
from worker.jobs.earlier_states import States
from worker.jobs.stages import ImageStore, JobEngine, JobStages
from worker.jobs.suspects import may_begin

log = get_logger(__name__)

#: How long a place that fails is asked again: CPU processes and the object store to read what a job
#: brings or to take its images. A deadline may end it sooner.
PATIENCE_S = 600.0
#: How long jobs that are given back are held until it is written where they stand.
HAND_OVER_S = 1.5


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
        lend: Callable[[Job, JobImages], object] = lambda job, made: None,
        states: KeepsStates | None = None,
        find_states: "Callable[[Claim], Future[States] | None]" = lambda claim: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Prepare; `lend` is given what is known of each job whose images are delivered.

        `states` keeps where images stand, `find_states` finds where those of a job stood that
        another worker has begun.
        """
        self._states = states
        self._leases = leases
        self._engine = engine
        self._held: dict[str, ClaimedJob] = {}
        self._waiting: deque[ClaimedJob] = deque()  #: for their turn, in the order of their claims
        self._begun: set[ClaimedJob] = set()  #: and not ended
        self._claiming = (
            threading.Lock()
        )  #: held from a claim until its job waits for its turn, or is in the engine, or what it
        #: brings is asked for
        self._finisher = Finisher(
            leases=leases,
            delete=images.delete,
            observe=observe,
            lend=lend,
            states=states,
            on_ended=self._end,
        )
        self._stages = JobStages(
            leases=leases,
            engine=engine,
            images=images,
            prefetch=prefetch,
            find_states=find_states,
            die=die,
            patience_s=patience_s,
            claiming=self._claiming,
            on_made=self._note_made,
            on_result=self._finisher.finish,
        )

    def start(self) -> None:
        self._finisher.start()

    def close(self) -> None:
        """End the finisher once it has written what it has, if the store takes it in time."""
        self._finisher.close()

    def take(self, job_id: str, on_end: Callable[[JobEnding], None], rung: str = "") -> str | None:
        """Claim the job whose turn it is where a message names one, and start making it.

        Returns its id; None: nothing is to be made here and now. `rung` names the queue, where
        messages stand for that alone.

        Raises:
            StoreUnavailable: nobody knows; its lease or upkeep brings it back.
        """
        with self._claiming:
            claim = self._leases.claim(job_id, rung=rung)
            if claim is None:
                return None
            taken = claim.job.id
            self._drop(self._held.get(taken))  # our own claim before a stall, void by now
            held = ClaimedJob(claim=claim, taken_at=time.time(), on_end=on_end)
            self._held[taken] = held
            self._waiting.append(held)
            begun = self._admit()
        _follow(begun)
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
            if held is None or not self._withdraw(held):
                self._engine.stop(job_id, reason)
            else:
                self._finisher.finish(Result(held=held, error=reason))

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
            follow = tried(partial(self._stages.begin, held))
            if isinstance(follow, Exception):  # it fails this job, and lets the next begin
                log.error("not_begun", job=held.claim.job.id, exc_info=follow)
                self._finisher.finish(Result(held=held, error=follow))
            else:
                begun.append(follow)
        return begun

    def _let_in(self) -> None:
        with self._claiming:
            begun = self._admit()
        _follow(begun)

    def let_go(self) -> int:
        """Give every job back to its queue, with where it stands, and stop making them."""
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
        reason = JobHandedOver("the worker is shutting down")
        leaving = {job_id for job_id in held if self._engine.stop(job_id, reason)}
        if self._states is not None and leaving and not self._states.settle(leaving, HAND_OVER_S):
            log.warning("states_not_handed_over", jobs=sorted(leaving))
        return self._leases.release({i: h.claim.fence for i, h in held.items()})

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

    def _note_made(self, held: ClaimedJob) -> None:
        held.is_made, held.made_at = True, time.time()
        if self._waiting:  # a suspect may begin
            self._finisher.call(self._let_in)

    def _end(self, held: ClaimedJob, ending: JobEnding) -> None:
        with self._claiming:
            if self._held.get(held.claim.job.id) is held:
                del self._held[held.claim.job.id]
            self._begun.discard(held)
        self._let_in()
        with log_errors(log, "on_end_failed", job=held.claim.job.id):
            held.on_end(ending)


def _follow(begun: Sequence[Callable[[], None]]) -> None:
    for follow in begun:
        follow()
