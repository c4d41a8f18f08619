"""One suite over the indexes of prompts. The server's case runs where one is at hand."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import numpy as np
import pytest
from pydantic import SecretStr
from qdrant_client import QdrantClient

from cli.stack.ports import free_port
from core.errors import VectorsUnavailable
from core.latents import LatentKey, Lender
from core.settings import Settings, VectorBackend
from storage.fakes import MemoryVectors
from storage.vectors.edge import FLUSHED, EdgeIndex
from storage.vectors.index import Lookup, Vector, VectorIndex, open_vectors
from storage.vectors.qdrant import QdrantIndex, connect

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local")

SIZE = 4
TERMS = LatentKey(model="base", width=64, height=64, steps=30, scheduler=None, is_guided=True)
SERVER = os.environ.get("ATELIER_TEST_QDRANT_URL")


def server_client() -> QdrantClient:
    key = SecretStr(os.environ.get("ATELIER_TEST_QDRANT_API_KEY", ""))
    return connect(Settings(qdrant_url=SERVER or "", qdrant_api_key=key))


def edge(folder: Path) -> VectorIndex:
    return EdgeIndex(folder / "edge", SIZE)


def local(folder: Path) -> VectorIndex:
    return QdrantIndex(QdrantClient(":memory:"), "latents", SIZE)


def server(folder: Path) -> VectorIndex:
    return QdrantIndex(server_client(), f"test-{uuid4().hex}", SIZE)


KINDS: dict[str, Callable[[Path], VectorIndex]] = {
    "memory": lambda folder: MemoryVectors(),
    "edge": edge,
    "client": local,
} | ({"server": server} if SERVER else {})


@pytest.fixture(params=KINDS)
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorIndex]:
    index = KINDS[request.param](tmp_path)
    yield index
    if request.param == "server":
        assert isinstance(index, QdrantIndex)
        index._client.delete_collection(index._name)
    index.close()


def a_vector(*numbers: float) -> Vector:
    vector = np.array(numbers, np.float32)
    return vector / np.linalg.norm(vector)


def a_lender(name: str, **changes: object) -> Lender:
    lender = Lender(
        id=name,
        tenant="shop",
        prompt=f"the prompt of {name}",
        terms=TERMS,
        skips=(5, 10, 15, 20, 25),
        num_bytes=100,
        made_at=1.5,
    )
    return replace(lender, **changes)  # type: ignore[arg-type]


EAST, NORTH = a_vector(1, 0, 0, 0), a_vector(0, 1, 0, 0)
LOOKUP = Lookup(vector=EAST, terms=TERMS, tenant="shop", skipped_steps=10)


def test_the_nearest_is_found_whole_and_with_its_cosine(index: VectorIndex) -> None:
    near, far = a_lender("near"), a_lender("far")
    index.add([far, near], [NORTH, a_vector(3, 4, 0, 0)])
    (found,) = index.nearest([LOOKUP])
    assert found is not None
    assert found.lender == near
    assert found.similarity == pytest.approx(0.6, abs=1e-5)


def test_in_an_empty_index_nothing_is_found(index: VectorIndex) -> None:
    assert index.nearest([LOOKUP, LOOKUP]) == [None, None]
    assert index.nearest([]) == []
    assert (index.count(), index.scan()) == (0, [])


@pytest.mark.parametrize(
    "other",
    [
        {"terms": replace(TERMS, model="tiny")},
        {"terms": replace(TERMS, width=128)},
        {"terms": replace(TERMS, steps=50)},
        {"terms": replace(TERMS, scheduler="ddim")},
        {"terms": replace(TERMS, is_guided=False)},
        {"terms": replace(TERMS, adapters=("ink@1.0",))},
        {"tenant": "bank"},
        {"skips": (15, 20, 25)},
    ],
)
def test_latents_under_other_terms_do_not_do_however_near(
    index: VectorIndex, other: dict[str, object]
) -> None:
    index.add([a_lender("other", **other), a_lender("far")], [EAST, NORTH])
    (found,) = index.nearest([LOOKUP])
    assert found is not None
    assert found.lender.id == "far"


def test_anybody_s_latents_do_where_no_tenant_is_named(index: VectorIndex) -> None:
    index.add([a_lender("theirs", tenant="bank", skips=(25,))], [EAST])
    anybody = replace(LOOKUP, tenant=None, skipped_steps=25)
    lookups = [anybody, LOOKUP, replace(LOOKUP, tenant=None), replace(anybody, skipped_steps=None)]
    found = [each and each.lender.id for each in index.nearest(lookups)]
    assert found == ["theirs", None, None, "theirs"]


def test_a_lender_that_comes_again_takes_the_place_of_the_older(index: VectorIndex) -> None:
    index.add([a_lender("one", num_bytes=1)], [NORTH])
    index.add([a_lender("one", num_bytes=2)], [EAST])
    assert index.scan() == [a_lender("one", num_bytes=2)]
    (found,) = index.nearest([LOOKUP])
    assert found is not None
    assert found.similarity == pytest.approx(1.0, abs=1e-5)


def test_what_is_removed_is_not_found_and_may_be_missing_already(index: VectorIndex) -> None:
    index.add([a_lender("a"), a_lender("b")], [EAST, NORTH])
    index.remove(["a", "never heard of"])
    index.remove([])
    index.add([], [])
    assert index.count() == 1
    (found,) = index.nearest([LOOKUP])
    assert found is not None
    assert found.lender.id == "b"


def test_a_scan_lists_more_than_one_page(index: VectorIndex) -> None:
    lenders = [a_lender(f"j{i}") for i in range(1500)]
    index.add(lenders, [EAST] * len(lenders))
    assert index.count() == 1500
    assert {lender.id for lender in index.scan()} == {lender.id for lender in lenders}


def test_the_folder_is_opened_by_one_and_keeps_what_was_added(tmp_path: Path) -> None:
    first = EdgeIndex(tmp_path, SIZE)
    first.add([a_lender("a")], [EAST])
    with pytest.raises(VectorsUnavailable):
        EdgeIndex(tmp_path, SIZE)
    first.close()
    again = EdgeIndex(tmp_path, SIZE)
    assert again.scan() == [a_lender("a")]
    assert again.nearest([LOOKUP])[0] is not None
    again.close()
    with pytest.raises(VectorsUnavailable):
        again.count()


def on_disk(folder: Path) -> int:
    """Add up the bytes that files take: most are longer than what is written of them."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def test_what_was_removed_leaves_the_disk_when_the_folder_is_opened_again(tmp_path: Path) -> None:
    index = EdgeIndex(tmp_path, SIZE)
    index.add([a_lender("stays")], [EAST])
    for first in range(0, 4000, 500):
        lenders = [a_lender(f"j{i}") for i in range(first, first + 500)]
        index.add(lenders, [NORTH] * 500)
        index.remove([lender.id for lender in lenders])
    index.close()
    before = on_disk(tmp_path / "segments")
    again = EdgeIndex(tmp_path, SIZE)
    assert on_disk(tmp_path / "segments") < before / 2
    again.add([a_lender("new")], [NORTH])
    found = again.nearest([LOOKUP, replace(LOOKUP, vector=NORTH)])
    assert [each and each.lender.id for each in found] == ["stays", "new"]
    assert (again.count(), again._shard.info().indexed_vectors_count) == (2, 0)
    again.close()


def test_the_log_of_what_was_added_is_cut_off_meanwhile(tmp_path: Path) -> None:
    index = EdgeIndex(tmp_path, SIZE)
    index.close()
    flushed: list[int] = []
    index._shard = SimpleNamespace(  # type: ignore[assignment]
        update=lambda points: None, flush=lambda: flushed.append(1)
    )
    for _ in range(3):
        index.add([a_lender("a")] * (FLUSHED // 2), [EAST] * (FLUSHED // 2))
    assert len(flushed) == 1


def test_a_server_that_is_away_is_unavailable_and_may_come_back_empty() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    index = QdrantIndex(connect(Settings(qdrant_url=url)), "latents", SIZE)
    attempts: list[Callable[[], object]] = [
        lambda: index.add([a_lender("a")], [EAST]),
        lambda: index.nearest([LOOKUP]),
        lambda: index.remove(["a"]),
        index.scan,
        index.count,
    ]
    for attempt in attempts:
        index._is_there = True
        with pytest.raises(VectorsUnavailable):
            attempt()
        assert not index._is_there, "the collection is looked for again"
    index.close()


def test_settings_choose_the_index(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    index = open_vectors(settings, "encoder", SIZE)
    assert isinstance(index, EdgeIndex)
    assert list((tmp_path / "vectors").iterdir()) == [tmp_path / "vectors" / "encoder"]
    index.close()
    url = f"http://127.0.0.1:{free_port()}"
    away = settings.model_copy(update={"vectors": VectorBackend.SERVER, "qdrant_url": url})
    assert isinstance(open_vectors(away, "encoder", SIZE), QdrantIndex)
