"""Shadow lookup: search latents for prompts whose jobs do not wait, to learn hit rates.

The hit rate of a level thus does not depend on whether the plan uses it: every job leaves latents,
and a plan without K > 0 learns when they are near enough to the prompts that come.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from core.errors import VectorsUnavailable
from core.levels.level import resumed_levels
from core.log import get_logger, log_errors
from core.model import Model
from core.placement import PlacementQuery
from scheduler.approximate_cache.finder import Finder, LatentQuery
from scheduler.approximate_cache.hit_rates import HitRates
from scheduler.approximate_cache.strategy import Dependency, StrategySwitch
from storage.vectors.index import Neighbour

WAITING = 256  #: prompts to be looked up; the newest stay
AT_ONCE = 4  #: of them
PAUSE_S = 0.5  #: between them: a core must not be busy with statistics

log = get_logger(__name__)


class ShadowLookup:
    """Learns hit rates of all levels from all prompts."""

    def __init__(
        self,
        finder: Finder,
        hits: HitRates,
        models: Mapping[str, Model],
        *,
        switch: StrategySwitch,
        budget_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._finder = finder
        self._hits = hits
        self._models = models
        self._switch = switch
        self._budget_s = budget_s
        self._clock = clock
        self._waiting: deque[LatentQuery] = deque(maxlen=WAITING)
        self._turn = 0

    def note(self, queries: Sequence[PlacementQuery]) -> None:
        """Note prompts, whatever level they get: one at K = 10 says something of K = 25 too."""
        for query in queries:
            if query.can_resume:  # others are planned for without
                self._choose(query)

    async def run(self) -> None:
        """Learn until cancelled, beside the requests."""
        while True:
            with log_errors(log, "shadow_lookup_failed"):
                await self.learn()
            await asyncio.sleep(PAUSE_S)

    async def learn(self) -> None:
        """Look some of them up."""
        asks = [self._waiting.popleft() for _ in range(min(len(self._waiting), AT_ONCE))]
        if not asks:
            return
        found = await asyncio.to_thread(self._look_up, asks)
        is_good = found is not None
        self._switch.see(Dependency.INDEX, good=is_good, bad=not is_good, now=self._clock())
        for ask, neighbour in zip(asks, found or [None] * len(asks), strict=True):
            self._observe(ask.terms.model, neighbour)

    def _look_up(self, asks: Sequence[LatentQuery]) -> list[Neighbour | None] | None:
        """Look some up; None: that failed, or took longer than a job would wait."""
        began = time.perf_counter()
        try:
            found = self._finder.find(asks)
        except VectorsUnavailable as error:
            log.warning("retrieval_failed", error=str(error))
            return None
        is_quick = (time.perf_counter() - began) / len(asks) <= self._budget_s
        return found if is_quick else None

    def _choose(self, query: PlacementQuery) -> None:
        """Look a prompt up for one of the models that may make it, each in its turn."""
        self._turn += 1
        model = query.terms[self._turn % len(query.terms)].model
        ask = self._finder.ask(query, model, None)
        if ask is not None and model in self._models:
            self._waiting.append(ask)

    def _observe(self, name: str, neighbour: Neighbour | None) -> None:
        model = self._models.get(name)
        if model is None:  # removed since its prompt was noted
            return
        for level in resumed_levels(model):
            skipped = level.approximation.skipped_steps
            is_hit = neighbour is not None and self._finder.suits(neighbour, skipped)
            self._hits.observe(level.name, is_hit)
