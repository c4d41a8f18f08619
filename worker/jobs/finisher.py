"""Write how jobs ended, one after the other, until the store has taken it."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from core.errors import JobHandedOver, LeaseLost, StoreUnavailable
from core.job import Job
from core.log import get_logger
from storage.jobs.leases import Leases, Outcome
from worker.engine.slot import JobImages
from worker.futures import tried
from worker.jobs.claimed import ClaimedJob, JobEnding, Result, outcome_of
from worker.jobs.spans import tell

log = get_logger(__name__)

#: How long a store that fails is asked to take an outcome.
PATIENCE_S = 600.0
#: How long a shutdown waits for that.
CLOSE_S = 30.0


class Finisher:
    """A thread that writes outcomes. Every method may be called from any thread."""

    def __init__(
        self,
        *,
        leases: Leases,
        delete: Callable[[Sequence[str]], None],
        observe: Callable[[Job, float], object],
        lend: Callable[[Job, JobImages], object],
        on_over: Callable[[Job], object],
        on_lost: Callable[[Job], object],
        on_ended: Callable[[ClaimedJob, JobEnding], object],
    ) -> None:
        """Prepare; `on_ended` hears of every result, `observe` and `lend` of delivered images.

        `on_over` hears of each job whose end was written here, `on_lost` of those that others have
        taken or ended.
        """
        self._leases = leases
        self._delete = delete
        self._observe = observe
        self._lend = lend
        self._on_over = on_over
        self._on_lost = on_lost
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
        is_ours = not held.is_void and self._write(held, outcome)
        if held.claim.job.trace:
            tell(result, outcome.status)
        log.debug("job_ended", job=held.claim.job.id, status=outcome.status, is_ours=is_ours)
        if is_ours:
            self._on_over(held.claim.job)
        elif not isinstance(result.error, JobHandedOver):
            self._on_lost(held.claim.job)
        if is_ours and result.error is None:
            self._observe(held.claim.job, held.total_s())
            if result.made is not None:
                self._lend(held.claim.job, result.made)
            return JobEnding(images=len(result.images))
        if not is_ours and result.images:
            self._delete([image.key for image in result.images])
        return JobEnding(error=result.error or LeaseLost("another claim owns this job by now"))

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
