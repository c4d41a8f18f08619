"""Whose latents would do for a prompt? The nearest lender's, if its prompt is near enough."""

from collections.abc import Sequence
from dataclasses import dataclass

from core.latents import Terms
from core.log import get_logger
from core.placement import PlacementQuery
from scheduler.embed import Embedder
from storage.vectors import Lookup, Neighbour, VectorIndex

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A prompt, and what the latents must be like."""

    prompt: str
    terms: Terms
    tenant: str | None  #: None: anybody's
    skipped_steps: int | None  #: None: any K


class Finder:
    """Embeds prompts and asks the index. Takes milliseconds a prompt: not for the event loop."""

    def __init__(
        self, embedder: Embedder, index: VectorIndex, *, min_similarity: float, is_shared: bool
    ) -> None:
        self._embedder = embedder
        self._index = index
        self._min_similarity = min_similarity
        self._is_shared = is_shared  #: between tenants

    def ask(self, query: PlacementQuery, model: str, skipped_steps: int | None) -> Ask | None:
        """Say what a job looks for if this model makes it; None: it starts from noise."""
        terms = next((terms for terms in query.terms if terms.model == model), None)
        if terms is None or query.tenant is None or query.exact:
            return None
        tenant = None if self._is_shared else query.tenant
        return Ask(prompt=query.prompt, terms=terms, tenant=tenant, skipped_steps=skipped_steps)

    def find(self, asks: Sequence[Ask]) -> list[Neighbour | None]:
        """Find a lender for each; whatever goes wrong, a job can do without."""
        try:
            return self._find(asks)
        except Exception as error:
            log.warning("retrieval_failed", error=repr(error))
            return [None] * len(asks)

    def _find(self, asks: Sequence[Ask]) -> list[Neighbour | None]:
        vectors = self._embedder.embed([ask.prompt for ask in asks])
        lookups = [
            Lookup(vector=v, terms=ask.terms, tenant=ask.tenant, skipped_steps=ask.skipped_steps)
            for ask, v in zip(asks, vectors, strict=True)
        ]
        return [
            each if each and each.similarity >= self._min_similarity else None
            for each in self._index.nearest(lookups)
        ]
