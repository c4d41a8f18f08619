from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest

from core.errors import ConfigurationError
from core.settings import Settings
from run.scheduler import MAX_BATCH, create_app


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
