"""Find where the images of a job stood that an earlier worker could not finish."""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Protocol

from core.errors import EngineError, StoreUnavailable
from core.job import Claim, Job
from core.log import get_logger
from core.telemetry import metrics
from storage.objects.image_states import StateKey
from worker.diffusion.image_state import NO_STATES, ImageState, read_state
from worker.jobs.patience import within

log = get_logger(__name__)

#: How long a job waits for them; then it begins anew.
PATIENCE_S = 5.0
#: A suspect goes on from where it stood with one of so many claims before this one, at most: what
#: it stood at may be what kills its workers.
TRIES = 2
#: A second pass is further than any first one.
_SECOND = 10**6

States = Mapping[int, ImageState]


class FindsStates(Protocol):
    """What is needed of the processes that read things."""

    def get_states(self, tenant: str, job_id: str) -> "Future[Mapping[str, bytes]]":
        """Read what earlier claims left of a job, by key: of each image the newest alone."""


class EarlierStates:
    """Finds what earlier claims of a job have left."""

    def __init__(
        self,
        *,
        store: FindsStates,
        identify: Callable[[Job], str],
        know: Callable[[str, Collection[str]], object],
        credit: Callable[[str, int, int], object],
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Prepare; `know` hears what objects there are of a job, `credit` how far it had come."""
        self._store = store
        self._identify = identify
        self._know = know
        self._credit = credit
        self._patience_s = patience_s

    def find(self, claim: Claim) -> "Future[States] | None":
        """Find where the images of a job stood, by index; None: nobody has begun it."""
        if not claim.earlier:
            return None
        found: Future[States] = Future()
        asked = self._store.get_states(claim.job.tenant, claim.job.id)
        within(self._patience_s, asked, {}).add_done_callback(partial(self._read, claim, found))
        return found

    def _read(
        self, claim: Claim, found: "Future[States]", asked: "Future[Mapping[str, bytes]]"
    ) -> None:
        states: States = NO_STATES
        try:
            states = self._usable(claim, asked.result())
        finally:
            found.set_result(states)

    def _usable(self, claim: Claim, objects: Mapping[str, bytes]) -> States:
        job, states = claim.job, dict[int, ImageState]()
        if not objects:
            return NO_STATES
        self._know(job.id, objects)
        keys = [key for key in map(StateKey.read, objects) if key is not None]
        if job.is_suspect and not {key.fence for key in keys} & {*claim.earlier[-TRIES:]}:
            log.warning("states_given_up", job=job.id)
            return NO_STATES
        identity = self._identify(job)
        for key in keys:
            try:
                states[key.index] = read_state(objects[str(key)], identity)
            except EngineError as error:
                log.warning("state_not_used", job=job.id, image=key.index, reason=str(error))
        metrics.image_states.labels("resumed").inc(len(states))
        if states and job.is_suspect:
            self._tell(claim, states.values())
        log.info("job_resumed", job=job.id, steps={i: s.step for i, s in states.items()})
        return states

    def _tell(self, claim: Claim, states: Collection[ImageState]) -> None:
        """Say how far the job has come: a worker that was lost over it may have been innocent."""
        furthest = sum(state.step + _SECOND * state.is_second for state in states)
        try:
            self._credit(claim.job.id, claim.fence, furthest)
        except StoreUnavailable as error:
            log.warning("job_not_credited", job=claim.job.id, reason=str(error))
