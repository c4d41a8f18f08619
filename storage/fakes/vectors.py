"""In-memory fake of the vector indexes."""

from collections.abc import Sequence

from core.latents import Lender
from storage.vectors.index import Lookup, Neighbour, Vector, VectorIndex, scope_sought, scopes_of


class MemoryVectors(VectorIndex):
    """Lenders in a dict, compared one by one."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Lender, Vector]] = {}

    def add(self, lenders: Sequence[Lender], vectors: Sequence[Vector]) -> None:
        pairs = zip(lenders, vectors, strict=True)
        self._kept |= {lender.id: (lender, vector) for lender, vector in pairs}

    def nearest(self, lookups: Sequence[Lookup]) -> list[Neighbour | None]:
        return [max(self._able(lookup), key=_similarity, default=None) for lookup in lookups]

    def remove(self, ids: Sequence[str]) -> None:
        for lender_id in ids:
            self._kept.pop(lender_id, None)

    def scan(self) -> list[Lender]:
        return [lender for lender, _ in self._kept.values()]

    def count(self) -> int:
        return len(self._kept)

    def close(self) -> None:
        pass

    def _able(self, lookup: Lookup) -> list[Neighbour]:
        scope = scope_sought(lookup)
        return [
            Neighbour(lender=lender, similarity=float(vector @ lookup.vector))
            for lender, vector in self._kept.values()
            if scope in scopes_of(lender)
        ]


def _similarity(neighbour: Neighbour) -> float:
    return neighbour.similarity
