"""Embedded vector index of reusable latents: Qdrant's engine in process, no server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from qdrant_edge import (
    CountRequest,
    Distance,
    EdgeConfig,
    EdgeOptimizersConfig,
    EdgeShard,
    EdgeVectorParams,
    FieldCondition,
    Filter,
    MatchValue,
    PayloadSchemaType,
    Point,
    Query,
    QueryBatchRequest,
    QueryRequest,
    ScrollRequest,
    UpdateOperation,
)

from core.errors import VectorsUnavailable
from core.latents import Lender
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

PointId = int | UUID | str  #: as the library spells it

PAGE = 1000  #: lenders read at once
#: Lenders added between two flushes, which shorten the log and hold all threads up for .1 s.
FLUSHED = 10_000
#: A segment is written anew where more of its points are gone than not. The threshold of graphs
#: (KiB of vectors) is above what an index ever holds: none is built.
COMPACTING = EdgeOptimizersConfig(deleted_threshold=0.5, indexing_threshold=2**30)


class EdgeIndex:
    """One shard. Its search is exact, without a graph.

    What is removed is marked as gone, and leaves the disk when the folder is opened again: that
    keeps the process from anything else for seconds.
    """

    def __init__(self, folder: Path, size: int) -> None:
        """Open the shard in `folder`, or make one for vectors of `size` numbers.

        Raises:
            VectorsUnavailable: another process has it open, or it is not a shard.
        """
        with _converting_errors():
            self._shard = _open(folder, size)
        self._unflushed = 0

    def add(self, lenders: Sequence[Lender], vectors: Sequence[Vector]) -> None:
        """Write them to the log first: what was added survives a kill."""
        points = [
            Point(point_id(lender.id), vector.tolist(), payload_of(lender))
            for lender, vector in zip(lenders, vectors, strict=True)
        ]
        if points:
            with _converting_errors():
                self._shard.update(UpdateOperation.upsert_points(points))
                self._flush(len(points))

    def nearest(self, lookups: Sequence[Lookup]) -> list[Neighbour | None]:
        """Search for all in one pass."""
        requests = [_request(lookup) for lookup in lookups]
        if not requests:
            return []
        with _converting_errors():
            found = self._shard.query_batch(QueryBatchRequest(requests))
            return [
                Neighbour(lender=lender_in(points[0].payload), similarity=points[0].score)
                if points
                else None
                for points in found
            ]

    def remove(self, ids: Sequence[str]) -> None:
        """Mark them as gone."""
        if ids:
            with _converting_errors():
                points: list[PointId] = [point_id(lender_id) for lender_id in ids]
                self._shard.update(UpdateOperation.delete_points(points))

    def scan(self) -> list[Lender]:
        """Read page by page."""
        found: list[Lender] = []
        offset = None
        with _converting_errors():
            while True:
                request = ScrollRequest(offset=offset, limit=PAGE, with_payload=True)
                records, offset = self._shard.scroll(request)
                found += [lender_in(record.payload) for record in records]
                if offset is None:
                    return found

    def count(self) -> int:
        """Count what is not marked as gone."""
        with _converting_errors():
            return self._shard.count(CountRequest(exact=True))

    def close(self) -> None:
        """Write all to disk and let another process open the folder."""
        with _converting_errors():
            self._shard.close()

    def _flush(self, added: int) -> None:
        self._unflushed += added
        if self._unflushed >= FLUSHED:
            self._shard.flush()
            self._unflushed = 0


def _open(folder: Path, size: int) -> EdgeShard:
    vectors = EdgeVectorParams(size=size, distance=Distance.Cosine)
    config = EdgeConfig(vectors=vectors, max_search_threads=1, optimizers=COMPACTING)
    if (folder / "edge_config.json").exists():
        shard = EdgeShard.load(str(folder), config)
        if shard.optimize():
            shard.flush()  # only then the old segments go
        return shard
    folder.mkdir(parents=True, exist_ok=True)
    shard = EdgeShard.create(str(folder), config)
    shard.update(UpdateOperation.create_field_index(SCOPES, PayloadSchemaType.Keyword))
    return shard


def _request(lookup: Lookup) -> QueryRequest:
    scope = FieldCondition(SCOPES, match=MatchValue(scope_sought(lookup)))
    return QueryRequest(
        query=Query.Nearest(lookup.vector.tolist()),
        filter=Filter(must=[scope]),
        limit=1,
        with_payload=True,
    )


@contextmanager
def _converting_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the library raises nothing narrower
        raise VectorsUnavailable(str(error)) from error
