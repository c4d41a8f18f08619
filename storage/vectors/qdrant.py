"""Vector index of reusable latents on a Qdrant server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from core.errors import VectorsUnavailable
from core.latents import Lender
from core.settings import Settings
from storage.vectors.index import (
    SCOPES,
    Lookup,
    Neighbour,
    Vector,
    lender_in,
    payload_of,
    point_id,
    scope_sought,
)

PAGE = 1000  #: lenders read at once
TIMEOUT_S = 5  #: of one answer; a job waits for a part of that only


def connect(settings: Settings) -> QdrantClient:
    """Prepare a client; nothing is sent until it is used."""
    return QdrantClient(
        url=settings.qdrant_url,
        api_key=settings.qdrant_api_key.get_secret_value() or None,
        timeout=TIMEOUT_S,
        check_compatibility=False,
    )


class QdrantIndex:
    """One collection, made at the first use where there is none: the server may come later."""

    def __init__(self, client: QdrantClient, name: str, size: int) -> None:
        """Use the collection `name` for vectors of `size` numbers."""
        self._client = client
        self._name = name
        self._size = size
        self._is_there = False

    def add(self, lenders: Sequence[Lender], vectors: Sequence[Vector]) -> None:
        """Return once they can be found."""
        points = [
            models.PointStruct(
                id=str(point_id(lender.id)), vector=vector.tolist(), payload=payload_of(lender)
            )
            for lender, vector in zip(lenders, vectors, strict=True)
        ]
        if points:
            with self._serving():
                self._client.upsert(self._name, points, wait=True)

    def nearest(self, lookups: Sequence[Lookup]) -> list[Neighbour | None]:
        """Search for all in one request."""
        requests = [_request(lookup) for lookup in lookups]
        if not requests:
            return []
        with self._serving():
            answers = self._client.query_batch_points(self._name, requests)
        found = [answer.points for answer in answers]
        return [
            Neighbour(lender=lender_in(points[0].payload), similarity=points[0].score)
            if points
            else None
            for points in found
        ]

    def remove(self, ids: Sequence[str]) -> None:
        """Return once they cannot be found any more."""
        if ids:
            points: list[models.ExtendedPointId] = [str(point_id(lender_id)) for lender_id in ids]
            with self._serving():
                self._client.delete(self._name, models.PointIdsList(points=points), wait=True)

    def scan(self) -> list[Lender]:
        """Read page by page."""
        found: list[Lender] = []
        offset = None
        with self._serving():
            while True:
                records, offset = self._client.scroll(self._name, limit=PAGE, offset=offset)
                found += [lender_in(record.payload) for record in records]
                if offset is None:
                    return found

    def count(self) -> int:
        """Count them one by one, not by estimate."""
        with self._serving():
            return self._client.count(self._name, exact=True).count

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    @contextmanager
    def _serving(self) -> Iterator[None]:
        try:
            self._ensure()
            yield
        except (ApiException, httpx.HTTPError, OSError) as error:
            self._is_there = False  # it may have lost its volume: it is looked for again
            raise VectorsUnavailable(f"{type(error).__name__}: {error}") from error

    def _ensure(self) -> None:
        if self._is_there:
            return
        if not self._client.collection_exists(self._name):
            vectors = models.VectorParams(size=self._size, distance=models.Distance.COSINE)
            try:
                self._client.create_collection(self._name, vectors_config=vectors)
            except UnexpectedResponse as error:  # somebody else was faster
                if error.status_code != 409:
                    raise
        # Of a collection whose maker ended before it had made one, too: twice is no harm.
        self._client.create_payload_index(self._name, SCOPES, models.PayloadSchemaType.KEYWORD)
        self._is_there = True


def _request(lookup: Lookup) -> models.QueryRequest:
    match = models.MatchValue(value=scope_sought(lookup))
    scope = models.Filter(must=[models.FieldCondition(key=SCOPES, match=match)])
    vector = lookup.vector.tolist()
    return models.QueryRequest(query=vector, filter=scope, limit=1, with_payload=True)
