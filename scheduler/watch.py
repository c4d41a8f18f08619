"""Would there be something to start from? Prompts are looked up that nobody waits for.

So the hit rate of a level does not depend on whether the plan uses it: latents are left by every
job, and a plan without K > 0 learns when they are near enough to the prompts that come.
"""

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence

from core.placement import PlacementQuery
from core.variant import Model
from scheduler.finder import Ask, Finder
from scheduler.hits import HitRates
from storage.vectors import Neighbour

WAITING = 256  #: prompts to be looked up; the newest stay
AT_ONCE = 4  #: of them
PAUSE_S = 0.5  #: between them: a core must not be busy with statistics


class Watch:
    """Learns hit rates of all levels from all prompts."""

    def __init__(
        self, finder: Finder, hits: HitRates, models: Mapping[str, Model], *, budget_s: float
    ) -> None:
        self._finder = finder
        self._hits = hits
        self._models = models
        self._budget_s = budget_s
        self._waiting: deque[Ask] = deque(maxlen=WAITING)
        self._turn = 0

    def note(self, queries: Sequence[PlacementQuery]) -> None:
        """Note prompts, whatever level they get: one at K = 10 says something of K = 25 too."""
        for query in queries:
            if query.exact:
                continue
            for model in query.models:
                if model in self._models and self._finder.ask(query, model, None) is None:
                    self._observe(model, None)  # an edit, say, which the plan knows nothing of
            self._choose(query)

    async def run(self) -> None:
        """Learn until cancelled, beside the requests."""
        while True:
            await self.learn()
            await asyncio.sleep(PAUSE_S)

    async def learn(self) -> None:
        """Look some of them up."""
        asks = [self._waiting.popleft() for _ in range(min(len(self._waiting), AT_ONCE))]
        if not asks:
            return
        began = time.perf_counter()
        found = await asyncio.to_thread(self._finder.find, asks)
        is_quick = (time.perf_counter() - began) / len(asks) <= self._budget_s
        for ask, neighbour in zip(asks, found, strict=True):
            self._observe(ask.terms.model, neighbour if is_quick else None)

    def _choose(self, query: PlacementQuery) -> None:
        """Look a prompt up for one of the models that may make it, each in its turn."""
        if not query.terms:
            return
        self._turn += 1
        model = query.terms[self._turn % len(query.terms)].model
        ask = self._finder.ask(query, model, None)
        if ask is not None and model in self._models:
            self._waiting.append(ask)

    def _observe(self, model: str, neighbour: Neighbour | None) -> None:
        for level in self._models[model].resumed_levels:
            skipped = level.skipped_steps
            is_hit = neighbour is not None and self._finder.suits(neighbour, skipped)
            self._hits.observe(level.name, is_hit)
