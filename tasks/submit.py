"""Group commit: jobs that arrive together share one round trip to the store."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from core.errors import Conflict, TooManyRequests
from storage.jobs.jobs import NewJob, Submitted

#: Jobs of one trip: enough to be worth it, few enough not to hold the server up.
MAX_BATCH = 128

Answer = Submitted | Conflict | TooManyRequests


class Store(Protocol):
    """What a submitter needs of the job store."""

    async def submit(self, jobs: Sequence[NewJob]) -> list[Answer]:
        """Store jobs in one round trip; one answer each, in order."""


class Submitter:
    """Group commit: what arrives while a trip is in flight shares the next one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[tuple[NewJob, asyncio.Future[Answer]]] = deque()
        self._trips: asyncio.Task[None] | None = None

    async def submit(self, job: NewJob) -> Submitted:
        """Store one job and ring for it; return once both are done.

        Raises:
            Conflict: its idempotency key belongs to another request.
            TooManyRequests: its queue is full.
            StoreUnavailable: it may or may not have been stored; ask again with the same key.
        """
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, future))
        if self._trips is None or self._trips.done():
            self._trips = asyncio.create_task(self._travel())
        answer = await future
        if isinstance(answer, Submitted):
            return answer
        raise answer

    async def _travel(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_BATCH))]
            await self._trip([job for job, _ in batch], [future for _, future in batch])

    async def _trip(
        self, jobs: Sequence[NewJob], futures: Sequence[asyncio.Future[Answer]]
    ) -> None:
        try:
            answers: Sequence[Answer | Exception] = await self._store.submit(jobs)
        except Exception as error:  # whatever it is, somebody waits for these futures
            answers = [error] * len(jobs)
        for future, answer in zip(futures, answers, strict=True):
            if future.done():  # its request went away; the job is stored all the same
                continue
            if isinstance(answer, Submitted | Conflict | TooManyRequests):
                future.set_result(answer)
            else:
                future.set_exception(answer)
