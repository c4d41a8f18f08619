import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest

from catalog.catalogue import Catalogue
from catalog.models import Survey
from core.errors import ConfigurationError
from core.settings import Settings
from run.scheduler import MAX_BATCH, create_app, follow_models
from storage.redis.connect import end


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """The service as it is before its first round: nobody is asked for anything."""
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "atelier.json").write_text('{"name": "base", "family": "noop"}')
    app = create_app(Settings(models_dir=tmp_path, data_dir=tmp_path))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://scheduler") as client:
        yield client


async def test_every_query_is_answered_in_order_by_a_placement_or_an_error(
    client: httpx.AsyncClient,
) -> None:
    queries = [{"prompt": "x", "models": [m]} for m in ("base", "unheard-of")]
    answer = await client.post("/route", json={"queries": queries})
    assert answer.status_code == 200
    errors = [item["error"] for item in answer.json()["placements"]]
    assert "base" in errors[0]
    assert len(errors) == 2


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"queries": 3}', b'{"queries": [{"prompt": "x"}]}', b"[]"]
)
async def test_what_is_no_batch_is_refused(client: httpx.AsyncClient, body: bytes) -> None:
    answer = await client.post("/route", content=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


async def test_what_a_newer_api_says_of_a_query_is_ignored(client: httpx.AsyncClient) -> None:
    queries = [{"prompt": "x", "models": ["base"], "is_counted": False, "is_newer": True}]
    assert (await client.post("/route", json={"queries": queries})).status_code == 200


async def test_a_batch_has_a_limit(client: httpx.AsyncClient) -> None:
    queries = [{"prompt": "x", "models": ["base"]}] * (MAX_BATCH + 1)
    body = msgspec.json.encode({"queries": queries})
    assert (await client.post("/route", content=body)).status_code == 413


async def test_it_is_alive_but_not_ready_before_its_first_round(client: httpx.AsyncClient) -> None:
    assert (await client.get("/healthz")).status_code == 200
    assert (await client.get("/readyz")).status_code == 503
    assert (await client.get("/plan")).json()["version"] == 0


async def test_metrics_count_what_could_not_be_placed(client: httpx.AsyncClient) -> None:
    await client.post("/route", json={"queries": [{"prompt": "x", "models": ["base"]}]})
    assert "atelier_unplaced_total 1.0" in (await client.get("/metrics")).text


def test_an_unknown_policy_ends_the_process(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="ATELIER_POLICY"):
        create_app(Settings(models_dir=tmp_path, policy="best"))


class FailingOnce(Catalogue):
    """Models on a volume that is away at the first look."""

    looks = 0

    def look(self) -> Survey | None:
        self.looks += 1
        if self.looks == 1:
            raise OSError(errno.ESTALE, "Stale file handle")
        return super().look()


class Plans:
    """Notes that models have come."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()

    def change_models(self) -> None:
        self.changed.set()


async def test_models_are_followed_after_a_look_that_failed(tmp_path: Path) -> None:
    catalogue, plans = FailingOnce(tmp_path), Plans()
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "atelier.json").write_text('{"name": "base", "family": "noop"}')
    task = asyncio.create_task(follow_models(catalogue, plans, period_s=0.001))  # type: ignore[arg-type]
    try:
        async with asyncio.timeout(10):
            await plans.changed.wait()
    finally:
        await end([task])
    assert list(catalogue) == ["base"]
