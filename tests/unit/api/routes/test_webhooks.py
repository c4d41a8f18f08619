"""Webhooks that nobody took: shown to whose jobs they are of, and sent again."""

from tests.unit.api.conftest import Stack

HOOK = {"url": "https://example.com/h", "events": ["completed"]}


async def given_up(stack, client, headers=None) -> str:
    """Have a job end whose receiver is gone; give its webhook."""
    body = {"prompt": "x", "webhook": HOOK}
    job = (await client.post("/v1/jobs", json=body, headers=headers)).json()
    await client.post(f"/v1/jobs/{job['id']}/cancel", headers=headers)
    deliveries = stack.services.deliveries
    [delivery] = await deliveries.due()
    await deliveries.dead(delivery.id)
    return delivery.id


async def test_a_webhook_given_up_is_listed_and_sent_again_once(client, stack):
    name = await given_up(stack, client)
    [shown] = (await client.get("/v1/webhooks/dead")).json()["data"]
    assert (shown["id"], shown["event"], shown["attempts"]) == (name, "completed", 1)
    assert shown["url"] == HOOK["url"]
    replayed = await client.post(f"/v1/webhooks/{name}/replay")
    assert (replayed.status_code, replayed.json()["id"]) == (202, name)
    assert [each.id for each in await stack.services.deliveries.due()] == [name]
    again = await client.post(f"/v1/webhooks/{name}/replay")
    assert (again.status_code, again.json()["status"]) == (404, 404)
    assert (await client.get("/v1/webhooks/dead")).json()["data"] == []


async def test_another_tenants_webhook_does_not_exist(tmp_path):
    stack = Stack(tmp_path, api_keys={"key-a": "anna", "key-b": "bert"})
    async with stack.client(authorization="Bearer key-a") as client:
        name = await given_up(stack, client)
        other = {"authorization": "Bearer key-b"}
        assert (await client.get("/v1/webhooks/dead", headers=other)).json()["data"] == []
        refused = await client.post(f"/v1/webhooks/{name}/replay", headers=other)
        assert refused.status_code == 404
        assert (await client.post(f"/v1/webhooks/{name}/replay")).status_code == 202


async def test_many_of_another_tenant_hide_none(tmp_path, monkeypatch):
    monkeypatch.setattr("api.routes.webhooks.PAGE", 2)
    stack = Stack(tmp_path, api_keys={"key-a": "anna", "key-b": "bert"})
    async with stack.client(authorization="Bearer key-a") as client:
        names = [await given_up(stack, client)]
        for _ in range(3):
            await given_up(stack, client, {"authorization": "Bearer key-b"})
        names.append(await given_up(stack, client))
        shown = (await client.get("/v1/webhooks/dead")).json()["data"]
        assert sorted(each["id"] for each in shown) == sorted(names)
        assert len((await client.get("/v1/webhooks/dead?limit=1")).json()["data"]) == 1
