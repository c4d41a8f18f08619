import time
from datetime import UTC, datetime, timedelta

import pytest

from core.job import JobStatus
from storage.jobs.leases import Outcome
from tests.unit.api.conftest import Stack
from tests.unit.api.routes.tenants.test_keys import GOOD, by

PRICES = {"cpu": 3600.0}


@pytest.fixture
def stack(tmp_path):
    return Stack(tmp_path, api_keys={"set": "anna"}, operator_keys=("boss",), device_prices=PRICES)


@pytest.fixture
async def client(stack):
    async with stack.client(Authorization="Bearer set") as client:
        yield client


def make(stack, job, device_s=0.5):
    claim = stack.leases.claim(job["id"])
    stack.leases.finish(
        job["id"], claim.fence, Outcome(status=JobStatus.SUCCEEDED, device_s=device_s)
    )


async def read(client, query="", **headers):
    response = await client.get(f"/v1/usage{query}", headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_tenant_reads_its_own(client, stack, monkeypatch):
    noon = datetime.now(UTC).replace(hour=12)  # else a day may end meanwhile
    stack.store.clock = noon.timestamp
    monkeypatch.setattr(time, "time", noon.timestamp)
    make(stack, (await client.post("/v1/jobs", json=GOOD | {"n": 2})).json())
    make(stack, (await client.post("/v1/jobs", json=GOOD)).json())
    await client.post("/v1/jobs", json=GOOD)
    today = noon.date()
    told = await read(client)
    ends = {"succeeded": 2, "failed": 0, "canceled": 0, "expired": 0}
    assert told["total"] == {
        "images": 3,
        "jobs": ends,
        "device_seconds": {"cpu": 1.0},
        "gpu_seconds": 1.0,
        "cost": 1.0,
    }
    assert told["data"] == [{**told["total"], "start": str(today)}]
    assert (told["tenant"], told["open_jobs"], told["end"]) == ("anna", 1, str(today))
    month = await read(client, "?by=month")
    assert month["data"] == [{**told["total"], "start": str(today.replace(day=1))}]
    before = today - timedelta(days=1)
    assert (await read(client, f"?start={before}&end={before}"))["data"] == []


async def test_operators_name_a_tenant_and_others_may_not(client, stack):
    make(stack, (await client.post("/v1/jobs", json=GOOD)).json())
    assert (await read(client, "?tenant=anna"))["total"]["images"] == 1
    told = await read(client, "?tenant=anna", **by("boss"))
    assert (told["tenant"], told["total"]["images"]) == ("anna", 1)
    assert (await read(client, **by("boss")))["total"]["images"] == 0
    refused = await client.get("/v1/usage?tenant=bolt")
    assert refused.status_code == 403 and "operate" in refused.json()["detail"]


@pytest.mark.parametrize("prices", [{}, {"NVIDIA H200": 3.5}])
async def test_without_a_price_no_cost_is_told(tmp_path, prices):
    stack = Stack(tmp_path, device_prices=prices)
    async with stack.client() as client:
        make(stack, (await client.post("/v1/jobs", json=GOOD)).json())
        assert (await read(client))["total"]["cost"] is None


@pytest.mark.parametrize(
    "query",
    [
        "?start=2026-02-30",
        "?start=2026-02-01&end=2026-01-31",
        "?start=2020-01-01",
        "?by=year",
        "?end=0",
    ],
)
async def test_what_is_no_range_is_refused(client, query):
    assert (await client.get(f"/v1/usage{query}")).status_code == 422
