"""Group commit: jobs that arrive together share one round trip to the store."""

from collections.abc import Sequence
from typing import Protocol

from core.micro_batch import MicroBatcher, at_most
from storage.jobs.submit import Answer, NewJob, Submitted

#: Jobs of one trip: enough to be worth it, few enough not to hold the server up.
MAX_BATCH = 128


class Store(Protocol):
    """What a submitter needs of the job store."""

    async def submit(self, jobs: Sequence[NewJob]) -> list[Answer]:
        """Store jobs in one round trip; one answer each, in order."""


class Submitter:
    """Stores jobs, many a trip."""

    def __init__(self, store: Store) -> None:
        self._trips: MicroBatcher[NewJob, Submitted] = MicroBatcher(
            store.submit, at_most(MAX_BATCH)
        )

    async def submit(self, job: NewJob) -> Submitted:
        """Store one job and ring for it; return once both are done.

        Raises:
            Conflict: its idempotency key belongs to another request.
            TooManyRequests: its queue is full.
            StoreRefused: it has not been stored.
            StoreUnavailable: it may or may not have been stored; ask again with the same key.
        """
        return await self._trips.ask(job)
