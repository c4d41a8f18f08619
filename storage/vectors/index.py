"""Vector index interface: jobs whose latents may be reused, by prompt embedding."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import NAMESPACE_OID, UUID, uuid5

import numpy as np
from numpy.typing import NDArray

from core.codec import decode, encode
from core.latents import LatentKey, Lender
from core.settings import Settings, VectorBackend

Vector = NDArray[np.float32]  #: [D], of length 1
ANYBODY = "*"  #: stands for a tenant where tenants share

#: Names of the two fields of a point's payload.
SCOPES = "scopes"
LENDER = "lender"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lookup:
    """What is looked for: the nearest prompt among those whose latents would do."""

    vector: Vector  #: of the prompt
    terms: LatentKey
    tenant: str | None  #: whose latents; None: anybody's
    skipped_steps: int | None = None  #: the K they must have; None: any


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """What was found."""

    lender: Lender
    similarity: float  #: cosine, in [-1, 1]


class VectorIndex(Protocol):
    """Lenders by their prompts' embeddings. May be used from several threads.

    Every method raises VectorsUnavailable where the index cannot serve now.
    """

    def add(self, lenders: Sequence[Lender], vectors: Sequence[Vector]) -> None:
        """Take lenders in; one with a known id takes the place of the older."""

    def nearest(self, lookups: Sequence[Lookup]) -> list[Neighbour | None]:
        """Find the most similar lender for each; None where none would do."""

    def remove(self, ids: Sequence[str]) -> None:
        """Forget lenders by their jobs; one that is not there is no error."""

    def scan(self) -> list[Lender]:
        """List every lender, in no order."""

    def count(self) -> int:
        """Count the lenders."""

    def close(self) -> None:
        """Let go of files and connections; what was added stays."""


def scopes_of(lender: Lender) -> list[str]:
    """Name every set of lookups that a lender may answer, so that one exact match filters."""
    return [
        scope_of(lender.terms, tenant, skips)
        for tenant in (lender.tenant, ANYBODY)
        for skips in (None, *lender.skips)
    ]


def scope_of(terms: LatentKey, tenant: str, skipped_steps: int | None) -> str:
    """Name the lookups under these terms, of this tenant, for this K."""
    return encode((terms, tenant, skipped_steps)).decode()


def scope_sought(lookup: Lookup) -> str:
    """Name the scope that a lender must have to answer a lookup."""
    tenant = ANYBODY if lookup.tenant is None else lookup.tenant
    return scope_of(lookup.terms, tenant, lookup.skipped_steps)


def point_id(lender_id: str) -> UUID:
    """Number the point of a lender: Qdrant takes UUIDs."""
    return uuid5(NAMESPACE_OID, lender_id)


def payload_of(lender: Lender) -> dict[str, object]:
    """Write what is kept beside a vector."""
    return {SCOPES: scopes_of(lender), LENDER: encode(lender).decode()}


def lender_in(payload: object) -> Lender:
    """Read a lender back."""
    if not isinstance(payload, dict):
        raise TypeError(f"a point without a payload: {payload!r}")
    return decode(payload[LENDER], Lender)


def open_vectors(settings: Settings, name: str, size: int) -> VectorIndex:
    """Open the index that the settings name, for embeddings of this encoder and length.

    Raises:
        VectorsUnavailable: it cannot be opened, such as a folder that another process has open.
    """
    if settings.vectors is VectorBackend.SERVER:
        from storage.vectors.qdrant import QdrantIndex, connect

        return QdrantIndex(connect(settings), name, size)
    from storage.vectors.edge import EdgeIndex

    return EdgeIndex(settings.data_dir / "vectors" / name, size)
