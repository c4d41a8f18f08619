"""Look up latents for placed jobs within a time budget, else start from noise."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeGuard

from core.errors import VectorsUnavailable
from core.latents import Start, latents_key
from core.levels.approximation import skipping
from core.levels.level import Level
from core.log import get_logger
from core.placement import Answer, Placement, PlacementQuery
from scheduler.approximate_cache.eviction import EvictionLedger
from scheduler.approximate_cache.finder import Finder, LatentQuery
from scheduler.approximate_cache.hit_rates import HitRates
from scheduler.approximate_cache.strategy import Dependency, StrategySwitch
from scheduler.metrics import Metrics
from scheduler.placement.placer import from_noise
from storage.vectors.index import Neighbour

CHUNK = 4  #: prompts embedded in one go: what is found in time counts, the rest starts from noise

LookedUp = dict[int, Neighbour | None]  #: what was found for whom; None: nobody is near enough

log = get_logger(__name__)


class Retrieval:
    """Gives placed jobs their starts, and never keeps them waiting longer than its budget."""

    def __init__(
        self,
        finder: Finder,
        *,
        ledger: EvictionLedger,
        hits: HitRates,
        budget_s: float,
        switch: StrategySwitch,
        metrics: Metrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._finder = finder
        self._ledger = ledger
        self._hits = hits
        self._budget_s = budget_s
        self._switch = switch  #: hears whether there was an answer; says whether to ask at all
        self._metrics = metrics
        self._clock = clock
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="retrieval")
        self._late: asyncio.Future[None] | None = None  #: a search that did not end in time

    async def start(
        self, queries: Sequence[PlacementQuery], answers: Sequence[Answer]
    ) -> list[Answer]:
        """Give each job its start whose level needs one.

        Where the nearest prompt is too far for that K it gets a smaller one; without any, none.
        """
        if not self._switch.allows_latents:
            return from_noise(answers)
        asks = {
            i: ask
            for i, (query, answer) in enumerate(zip(queries, answers, strict=True))
            if needs_start(answer)
            if (ask := self._finder.ask(query, answer.model, answer.skipped_steps)) is not None
        }
        found = await self._find(asks) if asks else {}
        return [self._started(answer, found.get(i)) for i, answer in enumerate(answers)]

    def close(self) -> None:
        """Let the search in flight end alone."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _find(self, asks: Mapping[int, LatentQuery]) -> dict[int, Neighbour]:
        began = time.perf_counter()
        looked_up: LookedUp = {}
        if self._late is None or self._late.done():
            await self._search(asks, looked_up, began + self._budget_s)
        is_answered = bool(looked_up)
        self._switch.see(Dependency.INDEX, good=is_answered, bad=not is_answered, now=self._clock())
        # a search that is late may still add to the other one
        found = {i: each for i, each in dict(looked_up).items() if each is not None}
        self._metrics.see_retrieval(time.perf_counter() - began, len(found), len(asks))
        self._note(asks, found)
        return found

    async def _search(
        self, asks: Mapping[int, LatentQuery], looked_up: LookedUp, until: float
    ) -> None:
        loop = asyncio.get_running_loop()
        search = loop.run_in_executor(self._thread, self._search_until, asks, looked_up, until)
        done, _ = await asyncio.wait({search}, timeout=until - time.perf_counter())
        self._late = None if done else search

    def _search_until(
        self, asks: Mapping[int, LatentQuery], looked_up: LookedUp, until: float
    ) -> None:
        numbers = list(asks)
        for first in range(0, len(numbers), CHUNK):
            if time.perf_counter() > until:
                return
            some = numbers[first : first + CHUNK]
            try:
                neighbours = self._finder.find([asks[i] for i in some])
            except VectorsUnavailable as error:  # a job can do without
                log.warning("retrieval_failed", error=str(error))
                return
            looked_up.update(zip(some, neighbours, strict=True))

    def _note(self, asks: Mapping[int, LatentQuery], found: Mapping[int, Neighbour]) -> None:
        now = self._clock()
        for i, ask in asks.items():
            planned = ask.skipped_steps or 0
            skipped = self._finder.skip(found[i], planned) if i in found else 0
            level = Level(model=ask.terms.model, approximation=skipping(planned))
            self._hits.observe(level.name, skipped == planned)
            if skipped:
                self._ledger.use(found[i].lender.id, skipped, now)

    def _started(self, answer: Answer, neighbour: Neighbour | None) -> Answer:
        if not needs_start(answer):
            return answer
        if neighbour is None:
            return answer.from_noise()
        lender, skipped = neighbour.lender, self._finder.skip(neighbour, answer.skipped_steps)
        key = latents_key(lender.tenant, lender.id, skipped)
        start = Start(key=key, similarity=round(neighbour.similarity, 4))
        return replace(answer.reached(skipping(skipped)), start=start)


def needs_start(answer: Answer) -> TypeGuard[Placement]:
    """Tell whether a job was placed at a level that goes on from latents."""
    return isinstance(answer, Placement) and answer.approximation.needs_latents
