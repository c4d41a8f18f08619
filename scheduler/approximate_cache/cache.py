"""Set up approximate caching (reuse of latents), or report why it is off."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from redis.asyncio import Redis

from core.errors import AtelierError, ConfigurationError
from core.levels.level import resumed_levels
from core.log import get_logger
from core.placement import Answer, PlacementQuery
from core.settings import Settings, VectorBackend
from scheduler.approximate_cache.embed import Embedder, open_embedder
from scheduler.approximate_cache.eviction import CacheLimits, EvictionLedger
from scheduler.approximate_cache.finder import Finder
from scheduler.approximate_cache.hit_rates import HitRates
from scheduler.approximate_cache.maintenance import MAX_LENDERS, CacheMaintenance
from scheduler.approximate_cache.probe import Probes
from scheduler.approximate_cache.retrieve import Retrieval
from scheduler.approximate_cache.shadow_lookup import ShadowLookup
from scheduler.approximate_cache.strategy import StrategySwitch
from scheduler.metrics import Metrics
from scheduler.profile.profile import Profile
from storage.boards.reusable_latents import AnnouncedLenders
from storage.objects.store import open_objects
from storage.redis.connect import end
from storage.vectors.index import VectorIndex, open_vectors

GIB = 2**30

log = get_logger(__name__)


class ApproximateCache:
    """Approximate caching (Argus §2.1), as one part of the scheduler."""

    def __init__(
        self,
        retrieval: Retrieval,
        watch: ShadowLookup,
        keeper: CacheMaintenance,
        probes: Probes,
        *,
        hits: HitRates,
        switch: StrategySwitch,
        index: VectorIndex,
    ) -> None:
        self.hits = hits
        self.switch = switch
        self._probes = probes
        self._retrieval = retrieval
        self._watch = watch
        self._keeper = keeper
        self._index = index

    async def start(
        self, queries: Sequence[PlacementQuery], answers: Sequence[Answer]
    ) -> list[Answer]:
        """Give placed jobs their starts, and note their prompts to learn from."""
        self._watch.note(queries)
        return await self._retrieval.start(queries, answers)

    async def run(self) -> None:
        """Keep the index and learn, until cancelled."""
        parts = (self._keeper, self._watch, self._probes)
        tasks = [asyncio.create_task(part.run()) for part in parts]
        try:
            await asyncio.gather(*tasks)
        finally:
            await end(tasks)
            self._retrieval.close()
            with suppress(AtelierError):
                self._index.close()


def open_approximate_cache(
    settings: Settings,
    profile: Profile,
    redis: Redis,
    metrics: Metrics,
    *,
    leads: Callable[[], bool],
    embedder: Callable[[], Embedder] | None = None,
) -> ApproximateCache | None:
    """Open the index and, unless it is shared, the encoder; None: it is switched off, or cannot be.

    A scheduler without it places as well, from noise, so what is missing does not end it.
    """
    if settings.latents_gib <= 0:
        return None
    try:
        opened = embedder() if embedder else open_embedder(settings)
        return _open(settings, profile, redis, metrics, leads, opened)
    except (AtelierError, ImportError) as error:
        log.warning("no_approximate_caching", reason=str(error))
        return None


def _open(
    settings: Settings,
    profile: Profile,
    redis: Redis,
    metrics: Metrics,
    leads: Callable[[], bool],
    embedder: Embedder,
) -> ApproximateCache:
    levels = [level for model in profile.models.values() for level in resumed_levels(model)]
    if not levels:
        raise ConfigurationError("no model here has steps to skip")
    objects = open_objects(settings)
    index = open_vectors(settings, embedder.name, embedder.size)
    is_alone = settings.vectors is VectorBackend.EMBEDDED
    ledger, hits = EvictionLedger(), HitRates(level.name for level in levels)
    finder = Finder(
        embedder, index, min_similarity=settings.min_similarity, is_shared=settings.share_latents
    )
    budget_s, switch = settings.retrieval_budget_s, StrategySwitch()
    keeper = CacheMaintenance(
        ledger,
        embedder,
        index,
        new=AnnouncedLenders(redis),
        objects=objects,
        limits=limits_of(settings),
        leads=(lambda: True) if is_alone else leads,
        metrics=metrics,
    )
    return ApproximateCache(
        Retrieval(
            finder, ledger=ledger, hits=hits, budget_s=budget_s, switch=switch, metrics=metrics
        ),
        ShadowLookup(finder, hits, profile.models, switch=switch, budget_s=budget_s),
        keeper,
        Probes(switch, finder, objects, ledger, budget_s=budget_s),
        hits=hits,
        switch=switch,
        index=index,
    )


def limits_of(settings: Settings) -> CacheLimits:
    """Say how much may be kept; latents never outlive their job's record."""
    return CacheLimits(
        num_bytes=int(settings.latents_gib * GIB),
        count=MAX_LENDERS,
        ttl_s=min(settings.latents_ttl_s, settings.retention_s),
    )
