"""Webhooks that nobody took: shown to whose jobs they are of, and sent again."""

import pytest

from api.routes.webhooks import MAX_READS
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


def note_jobs_asked_for(stack) -> list[str]:
    """Note which jobs the api reads from now on."""
    asked, get = [], stack.jobs.get

    async def noting(job_id, tenant=None):
        asked.append(job_id)
        return await get(job_id, tenant)

    stack.jobs.get = noting
    return asked


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


async def test_pages_of_a_tenant_follow_each_other_and_have_nothing_of_anothers(tmp_path):
    stack = Stack(tmp_path, api_keys={"key-a": "anna", "key-b": "bert"})
    async with stack.client(authorization="Bearer key-a") as client:
        names = [await given_up(stack, client)]
        for _ in range(3):
            await given_up(stack, client, {"authorization": "Bearer key-b"})
        names += [await given_up(stack, client) for _ in range(2)]
        asked = note_jobs_asked_for(stack)
        first = (await client.get("/v1/webhooks/dead?limit=2")).json()
        query = {"limit": 2, "cursor": first["cursor"]}
        rest = (await client.get("/v1/webhooks/dead", params=query)).json()
        shown = [*first["data"], *rest["data"]]
        assert len(first["data"]) == 2 and rest["cursor"] is None
        assert sorted(each["id"] for each in shown) == sorted(names)
        moments = [each["created_at"] for each in shown]
        assert moments == sorted(moments, reverse=True)
        assert set(asked) == {each["job"] for each in shown}


async def test_what_jobs_that_were_deleted_had_to_say_is_passed_over_some_at_a_time(client, stack):
    kept = await given_up(stack, client)
    for _ in range(MAX_READS + 1):
        name = await given_up(stack, client)
        await client.delete(f"/v1/jobs/{name.partition(':')[0]}")
        assert (await client.post(f"/v1/webhooks/{name}/replay")).status_code == 404
    asked, found, cursor = note_jobs_asked_for(stack), [], ""
    num_pages = 0
    while cursor is not None:
        query = {"limit": 1} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/v1/webhooks/dead", params=query)).json()
        found += [each["id"] for each in page["data"]]
        cursor, num_pages = page["cursor"], num_pages + 1
        assert len(asked) <= num_pages * MAX_READS
    assert (found, num_pages) == ([kept], 2)


@pytest.mark.parametrize("cursor", ["1.a", "x", ".a:completed", "1.a:b/c", "1.a:b:c:d:e:f"])
async def test_a_cursor_that_no_page_gave_is_refused(client, cursor):
    response = await client.get("/v1/webhooks/dead", params={"cursor": cursor})
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "cursor"
