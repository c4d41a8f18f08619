"""Give jobs to other workers: those of a worker that shuts down, or that hangs."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from core.errors import JobHandedOver
from core.log import get_logger
from storage.jobs.leases import Leases
from worker.engine.engine import Engine
from worker.jobs.claimed import ClaimedJob, KeepsStates

log = get_logger(__name__)

#: How long jobs that are given back are held until it is written where they stand.
HAND_OVER_S = 1.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HandOver:
    """Gives back the jobs of one worker. Every method may be called from any thread."""

    held: Mapping[str, ClaimedJob]  #: all that it holds, by id, as others change it
    leases: Leases
    engine: Engine
    states: KeepsStates | None

    def let_go(self) -> int:
        """Give every job back to its queue, with where it stands, and stop making them."""
        return self._give_back(dict(self.held))

    def let_go_late(self, within_s: float) -> set[str]:
        """Give back at once what will not be made in so long; return the ids of these jobs."""
        left_s = self.engine.left_s()
        late = {
            job_id: held
            for job_id, held in dict(self.held).items()
            if not held.is_made and left_s.get(job_id, math.inf) > within_s
        }
        self._give_back(late)
        return set(late)

    def _give_back(self, held: Mapping[str, ClaimedJob]) -> int:
        for each in held.values():
            each.is_void = True
        reason = JobHandedOver("the worker is shutting down")
        leaving = {job_id for job_id in held if self.engine.stop(job_id, reason)}
        if self.states is not None and leaving and not self.states.settle(leaving, HAND_OVER_S):
            log.warning("states_not_handed_over", jobs=sorted(leaving))
        return self.leases.release({i: h.claim.fence for i, h in held.items()})

    def abandon(self, suspects: Collection[str]) -> None:
        """Hand everything on because this worker hangs: what it hangs in as a worker's death would.

        The others go back as at a shutdown. The engine is not asked: it would not answer.
        """
        held = {job_id: each.claim.fence for job_id, each in dict(self.held).items()}
        self.leases.release({i: fence for i, fence in held.items() if i not in suspects})
        self.leases.forfeit({i: fence for i, fence in held.items() if i in suspects})
