import asyncio

import pytest

from api.services.wrong_keys import MAX_WRONG
from core.job import JobStatus, Progress
from tests.unit.api.conftest import Stack

GOOD = {"prompt": "a red circle", "model": "small"}


@pytest.fixture
def stack(tmp_path):
    return Stack(tmp_path, api_keys={"set": "anna"}, operator_keys=("boss",))


@pytest.fixture
async def client(stack):
    async with stack.client(Authorization="Bearer boss") as client:
        yield client


async def add(client, tenant="acme", **more):
    response = await client.post("/v1/keys", json={"tenant": tenant, **more})
    assert response.status_code == 201, response.text
    return response.json()


def by(key):
    return {"Authorization": f"Bearer {key}"}


async def jobs(client, key):
    return await client.get("/v1/jobs", headers=by(key))


async def test_a_key_is_shown_once_and_is_its_tenants(client, stack):
    response = await client.post("/v1/keys", json={"tenant": "acme", "name": "website"})
    made = response.json()
    assert response.headers["cache-control"] == "no-store"
    assert (made["scopes"], made["status"], made["expires_at"]) == (
        ["read", "submit"],
        "active",
        None,
    )
    job = (await client.post("/v1/jobs", json=GOOD, headers=by(made["key"]))).json()
    assert [each["id"] for each in (await jobs(client, made["key"])).json()["data"]] == [job["id"]]
    assert (await jobs(client, "set")).json()["data"] == []
    listed = await client.get("/v1/keys")
    assert [each["id"] for each in listed.json()["data"]] == [made["id"]]
    assert made["key"] not in listed.text and made["key"] not in repr(stack.store.tables)


async def test_a_revoked_key_works_no_more_and_stays_listed(client):
    made = await add(client)
    assert (await jobs(client, made["key"])).status_code == 200
    ended = await client.delete(f"/v1/keys/{made['id']}")
    assert (ended.status_code, ended.json()["status"]) == (200, "revoked")
    refused = await jobs(client, made["key"])
    assert refused.status_code == 401 and "revoked" in refused.json()["detail"]
    assert (await client.delete(f"/v1/keys/{made['id']}")).json() == ended.json()
    assert (await client.get("/v1/keys")).json()["data"][0]["status"] == "revoked"


async def test_a_rotated_key_works_beside_the_new_one_until_the_overlap_is_over(client):
    made = await add(client)
    again = await client.post(f"/v1/keys/{made['id']}/rotate")
    assert again.status_code == 201 and again.json()["replaces"] == made["id"]
    for key in (made["key"], again.json()["key"]):
        assert (await jobs(client, key)).status_code == 200
    last = await client.post(f"/v1/keys/{again.json()['id']}/rotate?overlap_s=0")
    assert (await jobs(client, again.json()["key"])).status_code == 401
    assert (await jobs(client, last.json()["key"])).status_code == 200
    ended = await client.post(f"/v1/keys/{again.json()['id']}/rotate")
    assert ended.status_code == 409 and "expired" in ended.json()["detail"]


async def test_keys_are_listed_by_tenant(client):
    mine = await add(client)
    await add(client, "bolt")
    listed = (await client.get("/v1/keys?tenant=acme")).json()["data"]
    assert [each["id"] for each in listed] == [mine["id"]]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "tenant"),
        ({"tenant": "../x"}, "tenant"),
        ({"tenant": "a", "scopes": []}, "scopes"),
        ({"tenant": "a", "scopes": ["root"]}, "scopes.0"),
        ({"tenant": "a", "expires_in_s": 0}, "expires_in_s"),
        ({"tenant": "a", "expires_in_s": 1e12}, "expires_in_s"),
        ({"tenant": "a", "name": "x" * 101}, "name"),
        ({"tenant": "a", "key": "mine"}, "key"),
    ],
)
async def test_what_cannot_be_a_key_is_refused_by_its_field(client, body, field):
    response = await client.post("/v1/keys", json=body)
    assert response.status_code == 422
    assert [each["field"] for each in response.json()["errors"]] == [field]
    assert (await client.get("/v1/keys")).json()["data"] == []


async def test_no_key_of_this_id_is_said(client):
    for method, path in (("DELETE", "/v1/keys/x"), ("POST", "/v1/keys/x/rotate")):
        assert (await client.request(method, path)).status_code == 404


async def test_a_stored_operators_key_operates(client):
    made = await add(client, "ops", scopes=["operate"])
    assert (await client.get("/v1/fleet", headers=by(made["key"]))).status_code == 200
    assert (await add(client, "ops", scopes=["operate"]))["key"] != made["key"]
    assert (await jobs(client, made["key"])).status_code == 403


async def test_who_changed_which_key_is_logged_and_no_key(client, logs):
    made = await add(client)
    await client.post(f"/v1/keys/{made['id']}/rotate")
    await client.delete(f"/v1/keys/{made['id']}")
    changes = [each for each in logs if each["event"].startswith("key_")]
    assert [each["event"] for each in changes] == ["key_added", "key_rotated", "key_revoked"]
    for each in changes:
        assert each["tenant"] == "acme" and each["address"] == "127.0.0.1"
        assert each["by"].startswith("settings-") and each["by_tenant"] == "operators"
    assert changes[1]["replaces"] == made["id"]
    assert made["key"] not in repr(logs) and "boss" not in repr(logs)


async def test_wrong_keys_are_slowed_down_and_right_ones_go_on(client):
    made = await add(client)
    assert (await jobs(client, made["key"])).status_code == 200
    answers = [(await jobs(client, f"guess {n}")).status_code for n in range(MAX_WRONG + 1)]
    assert answers == [401] * MAX_WRONG + [429]
    slowed = await jobs(client, "guess")
    assert 1 <= int(slowed.headers["retry-after"]) <= 60
    assert (await jobs(client, made["key"])).status_code == 200


async def test_operators_keys_alone_ask_everybody_for_one(tmp_path):
    async with Stack(tmp_path, operator_keys=("boss",)).client() as client:
        assert (await client.get("/v1/jobs")).status_code == 401
        assert (await jobs(client, "boss")).status_code == 200


async def test_a_service_that_asks_for_no_keys_makes_none(tmp_path):
    async with Stack(tmp_path).client() as client:
        response = await client.post("/v1/keys", json={"tenant": "acme"})
    assert response.status_code == 409
    assert "ATELIER_OPERATOR_KEYS" in response.json()["detail"]


async def test_a_stream_ends_when_its_key_is_revoked(client, stack):
    made = await add(client, scopes=["read", "submit", "operate"])
    job_id = (await client.post("/v1/jobs", json=GOOD, headers=by(made["key"]))).json()["id"]
    stack.leases.claim(job_id)
    stack.leases.progress({job_id: Progress(step=1, steps=9)})
    following = [
        asyncio.create_task(client.get(path, headers=by(made["key"])))
        for path in (f"/v1/jobs/{job_id}/events", f"/v1/predictions/{job_id}/stream")
    ]
    while len(stack.store.bells) < 2:
        await asyncio.sleep(0)
    await client.delete(f"/v1/keys/{made['id']}")
    stack.leases.progress({job_id: Progress(step=2, steps=9)})
    async with asyncio.timeout(60):
        told = [(await each).text for each in following]
    assert '"step":1' in told[0] and '"step":2' not in told[0]
    assert "1/9" in told[1] and "2/9" not in told[1]
    assert not stack.store.bells


async def test_who_streams_images_by_a_key_that_is_revoked_gets_none(client, stack):
    made = await add(client)
    asked = {"prompt": "a", "model": "small", "stream": True}
    asking = client.post("/v1/images/generations", json=asked, headers=by(made["key"]))
    following = asyncio.create_task(asking)
    while not stack.store.bells:
        await asyncio.sleep(0)
    await client.delete(f"/v1/keys/{made['id']}")
    [job_id] = stack.store.records
    stack.leases.claim(job_id)
    async with asyncio.timeout(60):
        told = (await following).text
    assert "event: error" in told
    while not stack.store.records[job_id].job.status.is_terminal:
        await asyncio.sleep(0)
    assert stack.store.records[job_id].job.status is JobStatus.CANCELED
