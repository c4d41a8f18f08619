"""Health probes of the vector index and object store, once a second.

The index is probed only while no job queries it, as a probe needs an embedding. A probe that hangs
is not repeated, and does not keep the process from ending.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from core.errors import AtelierError, ObjectMissing
from core.latents import LATENTS, LatentKey, latents_key
from core.log import get_logger, log_errors
from scheduler.approximate_cache.eviction import EvictionLedger
from scheduler.approximate_cache.finder import Finder, LatentQuery
from scheduler.approximate_cache.strategy import Dependency, StrategySwitch
from storage.objects.store import ObjectStore

PERIOD_S = 1.0
NOTHING = f"{LATENTS}/nothing"  #: a key without an object

#: What the index is asked: nobody has left latents on such terms, so it has all to look through.
QUESTION = LatentQuery(
    prompt="a probe",
    terms=LatentKey(model="", width=0, height=0, steps=0, scheduler=None, is_guided=False),
    tenant=None,
    skipped_steps=None,
)

log = get_logger(__name__)


class Probe:
    """Questions to somebody who may be away, one at a time."""

    def __init__(self, *, budget_s: float) -> None:
        self._budget_s = budget_s
        self._asked: asyncio.Future[bool] | None = None  #: the last time; not done: it hangs

    async def is_answered(self, ask: Callable[[], object]) -> bool:
        """Ask, unless the last question hangs; say whether there was an answer in time."""
        if self._asked is not None and not self._asked.done():
            return False
        self._asked = asyncio.get_running_loop().create_future()
        threading.Thread(target=_answer, args=(self._asked, ask), name="probe", daemon=True).start()
        done, _ = await asyncio.wait({self._asked}, timeout=self._budget_s)
        return bool(done) and self._asked.result()


class Probes:
    """Probes what jobs depend on that start from latents."""

    def __init__(
        self,
        switch: StrategySwitch,
        finder: Finder,
        objects: ObjectStore,
        ledger: EvictionLedger,
        *,
        budget_s: float,
        period_s: float = PERIOD_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._switch = switch
        self._period_s = period_s
        self._clock = clock
        self._finder = finder
        self._objects = objects
        self._ledger = ledger
        self._index, self._store = Probe(budget_s=budget_s), Probe(budget_s=budget_s)

    async def run(self) -> None:
        """Probe until cancelled."""
        while True:
            await asyncio.sleep(self._period_s)
            with log_errors(log, "probe_failed"):
                await self.probe()

    async def probe(self) -> None:
        """Probe once, and say how they did."""
        asking = [self._ask(Dependency.STORE, self._store, partial(self._read, self._key()))]
        if not self._switch.allows_latents:
            find = partial(self._finder.find, [QUESTION])
            asking.append(self._ask(Dependency.INDEX, self._index, find))
        await asyncio.gather(*asking)

    async def _ask(self, whom: Dependency, probe: Probe, ask: Callable[[], object]) -> None:
        is_good = await probe.is_answered(ask)
        self._switch.see(whom, good=is_good, bad=not is_good, now=self._clock())

    def _key(self) -> str:
        """Name what a job might read. If there is nothing yet, to be told so is an answer."""
        lender = self._ledger.newest
        return latents_key(lender.tenant, lender.id, lender.skips[0]) if lender else NOTHING

    def _read(self, key: str) -> None:
        with suppress(ObjectMissing):
            self._objects.get(key)


def _answer(asked: "asyncio.Future[bool]", ask: Callable[[], object]) -> None:
    is_answered = False
    try:
        ask()
        is_answered = True
    except AtelierError as error:
        log.debug("probe_failed", error=repr(error))
    finally:
        with suppress(RuntimeError):  # the loop has ended
            asked.get_loop().call_soon_threadsafe(_settle, asked, is_answered)


def _settle(asked: "asyncio.Future[bool]", is_answered: bool) -> None:
    if not asked.done():
        asked.set_result(is_answered)
