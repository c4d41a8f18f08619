"""Find reusable latents: the nearest earlier prompt, if it is similar enough."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.errors import VectorsUnavailable
from core.latents import LatentKey
from core.placement import PlacementQuery
from scheduler.approximate_cache.embed import Embedder
from storage.vectors.index import Lookup, Neighbour, VectorIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentQuery:
    """A prompt, and what the latents must be like."""

    prompt: str
    terms: LatentKey
    tenant: str | None  #: None: anybody's
    skipped_steps: int | None  #: None: any K


class Finder:
    """Embeds prompts and asks the index. Takes milliseconds a prompt: not for the event loop."""

    def __init__(
        self,
        embedder: Embedder,
        index: VectorIndex,
        *,
        min_similarity: Mapping[int, float],
        is_shared: bool,
    ) -> None:
        self._embedder = embedder
        self._index = index
        self._min_similarity = min_similarity  #: by K; one that is not there is never skipped
        self._is_shared = is_shared  #: between tenants

    def ask(
        self, query: PlacementQuery, model: str, skipped_steps: int | None
    ) -> LatentQuery | None:
        """Say what a job looks for if this model makes it; None: it starts from noise."""
        terms = next((terms for terms in query.terms if terms.model == model), None)
        if terms is None or query.tenant is None or query.exact:
            return None
        tenant = None if self._is_shared else query.tenant
        return LatentQuery(
            prompt=query.prompt, terms=terms, tenant=tenant, skipped_steps=skipped_steps
        )

    def find(self, asks: Sequence[LatentQuery]) -> list[Neighbour | None]:
        """Find a lender for each, near enough for its K or a smaller one; for any K the nearest.

        Raises:
            VectorsUnavailable: the index cannot serve now, or the encoder failed.
        """
        try:
            return self._find(asks)
        except VectorsUnavailable:
            raise
        except Exception as error:  # the encoder may raise anything; jobs start from noise
            raise VectorsUnavailable(repr(error)) from error

    def suits(self, neighbour: Neighbour, skipped_steps: int) -> bool:
        """Tell whether a job may skip so many steps of 50 by starting from a neighbour."""
        needed = self._min_similarity.get(skipped_steps, math.inf)
        return skipped_steps in neighbour.lender.skips and neighbour.similarity >= needed

    def skip(self, neighbour: Neighbour, at_most: int) -> int:
        """Say how many steps of 50 a job may skip by starting from a neighbour; 0: none."""
        suited = (k for k in neighbour.lender.skips if k <= at_most and self.suits(neighbour, k))
        return max(suited, default=0)

    def _find(self, asks: Sequence[LatentQuery]) -> list[Neighbour | None]:
        vectors = self._embedder.embed([ask.prompt for ask in asks])
        lookups = [
            Lookup(vector=v, terms=ask.terms, tenant=ask.tenant, skipped_steps=ask.skipped_steps)
            for ask, v in zip(asks, vectors, strict=True)
        ]
        found = self._index.nearest(lookups)
        return [
            each if each and self._suits(each, ask.skipped_steps) else None
            for ask, each in zip(asks, found, strict=True)
        ]

    def _suits(self, neighbour: Neighbour, skipped_steps: int | None) -> bool:
        return skipped_steps is None or self.skip(neighbour, skipped_steps) > 0
