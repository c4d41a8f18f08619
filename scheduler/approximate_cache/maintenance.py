"""Cache maintenance of reusable latents: index new ones, evict the rest and those of deleted jobs.

Runs beside the requests: it embeds a few prompts at a time, in a thread.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from core.errors import Unavailable
from core.latents import Lender, latents_key
from core.log import get_logger, log_errors
from scheduler.approximate_cache.embed import Embedder
from scheduler.approximate_cache.eviction import CacheLimits, EvictionLedger
from scheduler.metrics import Metrics
from storage.boards.reusable_latents import NewLenders
from storage.objects.store import ObjectStore
from storage.vectors.index import VectorIndex

POLL_S = 0.5
AGING_S = 30.0  #: how often somebody is looked for who is too old
BATCH = 8  #: lenders embedded in one go
BATCHES = 8  #: in one round at most
DELETED = 1000  #: deleted jobs that are heard of in one round at most
#: Lenders an index may hold: the embedded one compares with each, 30 ms for so many.
MAX_LENDERS = 100_000

log = get_logger(__name__)


class CacheMaintenance:
    """Keeps the index, its ledger and the objects behind them in step, within their limits."""

    def __init__(
        self,
        ledger: EvictionLedger,
        embedder: Embedder,
        index: VectorIndex,
        *,
        new: NewLenders,
        objects: ObjectStore,
        limits: CacheLimits,
        leads: Callable[[], bool],
        metrics: Metrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ledger = ledger
        self._embedder = embedder
        self._index = index
        self._new = new
        self._objects = objects
        self._limits = limits
        self._leads = leads  #: of several schedulers with one index, one keeps it
        self._metrics = metrics
        self._clock = clock
        self._is_read = False  #: the ledger holds what the index holds
        self._taken: list[Lender] = []  #: announced, not in the index yet
        self._deleted: list[str] = []  #: jobs that may be in the index still
        self._doomed: list[str] = []  #: keys of objects that nothing leads to any more
        self._aged_at = float("-inf")  #: when somebody was last looked for who is too old
        self._complaint = ""

    async def run(self) -> None:
        """Do rounds until cancelled."""
        while True:
            await self._try_round()
            await asyncio.sleep(POLL_S)

    async def round(self) -> None:
        """Take in, take out what was deleted, and make room.

        Raises:
            Unavailable: a store does not answer; what is left to do is done in a later round.
        """
        if not self._leads():
            self._is_read = False
            return
        if not self._is_read:
            self._ledger.add(await asyncio.to_thread(self._index.scan))
            self._is_read = True
        self._deleted = self._deleted or await self._new.take_deleted(DELETED)
        if await self._take_in():
            await self._take_out()
        await self._make_room()
        self._metrics.see_kept(self._ledger.num_bytes)

    async def _try_round(self) -> None:
        with log_errors(log, "lending_failed"):
            try:
                await self.round()
            except Unavailable as error:
                self._complain(f"{error.dependency}: {error}")
            else:
                self._complaint = ""

    def _complain(self, complaint: str) -> None:
        if complaint != self._complaint:
            log.warning("lending_put_off", reason=complaint)
        self._complaint = complaint

    async def _take_in(self) -> bool:
        """Take in what was announced; False: there may be more, of deleted jobs too."""
        for _ in range(BATCHES):
            self._taken = self._taken or await self._new.take(BATCH)
            if not self._taken:
                return True
            await asyncio.to_thread(self._add, self._taken)
            self._ledger.add(self._taken)
            self._taken = []
        return False

    async def _take_out(self) -> None:
        await self._drop([job_id for job_id in self._deleted if job_id in self._ledger])
        self._deleted = []

    def _add(self, lenders: Sequence[Lender]) -> None:
        self._index.add(lenders, self._embedder.embed([lender.prompt for lender in lenders]))

    async def _make_room(self) -> None:
        await self._drop(await self._choose())
        if self._doomed:
            await asyncio.to_thread(self._objects.delete, self._doomed)
            self._doomed = []

    async def _drop(self, ids: Sequence[str]) -> None:
        """Out of the index first, so that nobody is sent to objects that are about to go."""
        if ids:
            await asyncio.to_thread(self._index.remove, ids)
            self._doomed += [key for each in self._ledger.remove(ids) for key in keys_of(each)]

    async def _choose(self) -> list[str]:
        now, ledger = self._clock(), self._ledger
        if ledger.fits(self._limits) and now - self._aged_at < AGING_S:
            return []
        chosen = await asyncio.to_thread(ledger.excess, self._limits, now)
        self._aged_at = now
        return chosen


def keys_of(lender: Lender) -> list[str]:
    """Name the objects of a lender."""
    return [latents_key(lender.tenant, lender.id, k) for k in lender.skips]
