import pytest

from core.errors import StoreUnavailable
from tests.unit.api.conftest import Stack
from tests.unit.api.routes.tenants.test_keys import GOOD, add, by


@pytest.fixture
def stack(tmp_path):
    return Stack(tmp_path, api_keys={"set": "anna"}, operator_keys=("boss",))


@pytest.fixture
async def client(stack):
    async with stack.client(Authorization="Bearer boss") as client:
        yield client


async def told(client, query=""):
    return (await client.get(f"/v1/audit{query}")).json()["data"]


async def test_who_did_what_is_told_newest_first(client):
    made = await add(client, "acme")
    await client.patch("/v1/tenants/acme", json={"open_jobs": 2})
    await client.patch("/v1/tenants/acme", json={"open_jobs": 0})  # refused
    last, first = await told(client)
    assert (first["event"], first["facts"]["key"]) == ("key_added", made["id"])
    assert last["event"] == "tenant_changed"
    assert last["facts"] == {"tenant": "acme", "changes": {"open_jobs": 2}}
    assert last["by"].startswith("settings-") and last["by_tenant"] == "operators"
    assert (last["address"], len(last["request_id"])) == ("127.0.0.1", 32)
    assert made["key"] not in repr(await told(client))
    assert [each["event"] for each in await told(client, "?limit=1")] == ["tenant_changed"]


async def test_operators_delete_others_jobs_and_that_is_noted(client, stack):
    job = (await client.post("/v1/jobs", json=GOOD, headers=by("set"))).json()
    path = f"/v1/jobs/{job['id']}"
    assert (await client.delete(path)).status_code == 404
    assert (await client.delete(f"{path}?tenant=bolt")).status_code == 404
    assert (await client.delete(f"{path}?tenant=operators", headers=by("set"))).status_code == 403
    assert (await client.delete(f"{path}?tenant=anna")).json()["deleted"]
    (noted,) = await told(client)
    assert (noted["event"], noted["facts"]) == (
        "job_deleted",
        {"job": job["id"], "tenant": "anna"},
    )
    assert not stack.store.records


async def test_what_a_tenant_deletes_of_its_own_is_not_noted(client):
    job = (await client.post("/v1/jobs", json=GOOD, headers=by("set"))).json()
    await client.delete(f"/v1/jobs/{job['id']}", headers=by("set"))
    assert await told(client) == []


async def test_a_store_that_takes_no_note_refuses_nothing(client, stack, logs):
    class Away:
        async def add(self, entry):
            raise StoreUnavailable("connection refused")

    stack.services.audit = Away()
    await add(client, "acme")
    events = [each["event"] for each in logs]
    assert "key_added" in events and "not_among_the_last" in events


async def test_tenants_read_nothing_of_it(client):
    assert (await client.get("/v1/audit", headers=by("set"))).status_code == 403
