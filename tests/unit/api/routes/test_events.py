import asyncio
import json

from core.errors import StoreUnavailable
from core.job import JobStatus, Progress
from storage.fakes import MemoryEvents
from storage.jobs.leases import Outcome

GOOD = {"prompt": "a red circle", "model": "small"}


async def submit(client):
    return (await client.post("/v1/jobs", json=GOOD)).json()["id"]


async def run(stack, job_id, *steps):
    await stack.services.events.announce(job_id)
    claim = stack.leases.claim(job_id)
    for step in steps:
        stack.leases.progress({job_id: Progress(step=step, steps=30)})
    stack.leases.finish(job_id, claim.fence, Outcome(status=JobStatus.SUCCEEDED))


def events_in(text):
    """Read a stream: dictionaries with event, id and data."""
    blocks = [b for b in text.replace("\r\n", "\n").split("\n\n") if b and not b.startswith(":")]
    rows = [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]
    return [row | {"data": json.loads(row["data"])} for row in rows]


async def test_a_stream_tells_a_job_from_its_first_step_to_its_end(client, stack):
    job_id = await submit(client)
    await run(stack, job_id, 1, 2)
    response = await client.get(f"/v1/jobs/{job_id}/events")
    events = events_in(response.text)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"
    assert events[0]["event"] == "status"
    steps = [e["data"]["step"] for e in events if e["event"] == "progress"]
    assert steps == [1, 2]
    assert events[-1]["event"] == "done"
    assert events[-1]["data"]["id"] == job_id
    assert events[-1]["data"]["status"] == "succeeded"


async def test_a_stream_resumes_after_the_last_event_that_was_seen(client, stack):
    job_id = await submit(client)
    await run(stack, job_id, 1, 2, 3)
    everything = events_in((await client.get(f"/v1/jobs/{job_id}/events")).text)
    numbered = [e for e in everything if "id" in e]
    for seen, event in enumerate(numbered[:-1]):
        headers = {"Last-Event-ID": event["id"]}
        rest = events_in((await client.get(f"/v1/jobs/{job_id}/events", headers=headers)).text)
        assert [e["id"] for e in rest] == [e["id"] for e in numbered[seen + 1 :]]


async def test_an_id_that_is_none_of_ours_starts_from_the_beginning(client, stack):
    job_id = await submit(client)
    await run(stack, job_id, 1)
    headers = {"Last-Event-ID": "*; DROP"}
    events = events_in((await client.get(f"/v1/jobs/{job_id}/events", headers=headers)).text)
    assert [e["event"] for e in events] == ["status", "status", "progress", "done"]


async def test_a_follower_sees_what_happens_later(client, stack):
    job_id = await submit(client)
    following = asyncio.create_task(client.get(f"/v1/jobs/{job_id}/events"))
    while not stack.store.bells:
        await asyncio.sleep(0)
    await run(stack, job_id, 7)
    events = events_in((await following).text)
    assert events[0]["data"] == {"status": "queued"}
    assert events[-1]["data"]["status"] == "succeeded"


async def test_previews_come_to_those_who_ask(client, stack):
    job_id = await submit(client)
    claim = stack.leases.claim(job_id)
    url = f"/v1/jobs/{job_id}/events"
    following = asyncio.create_task(client.get(url, params={"previews": "true"}))
    while not stack.store.records[job_id].previewed:
        await asyncio.sleep(0)
    progress = {job_id: Progress(step=3, steps=30)}
    stack.leases.progress(progress)
    assert stack.leases.followed == {job_id: True}
    stack.leases.progress(progress, {job_id: '{"step":3,"preview":"abcd"}'})
    stack.leases.finish(job_id, claim.fence, Outcome(status=JobStatus.SUCCEEDED))
    shown = [e["data"] for e in events_in((await following).text) if e["event"] == "progress"]
    assert shown[-1] == {"step": 3, "steps": 30, "preview": "abcd"}
    plain = [e["data"] for e in events_in((await client.get(url)).text)]
    assert not any("preview" in data for data in plain)


async def test_a_canceled_job_ends_its_stream(client):
    job_id = await submit(client)
    await client.post(f"/v1/jobs/{job_id}/cancel")
    events = events_in((await client.get(f"/v1/jobs/{job_id}/events")).text)
    assert events[-1]["event"] == "done"
    assert events[-1]["data"]["status"] == "canceled"


async def test_a_stream_ends_when_the_store_goes_so_that_the_client_comes_back(client, stack, logs):
    async def broken(*_, previews):
        raise StoreUnavailable("connection lost")
        yield

    job_id = await submit(client)
    stack.services.events.follow = broken
    response = await client.get(f"/v1/jobs/{job_id}/events")
    assert response.status_code == 200
    assert [e["event"] for e in events_in(response.text)] == ["status"]
    assert any(entry["event"] == "events_ended_early" for entry in logs)


async def test_a_stream_ends_in_order_when_its_server_stops_and_is_resumed(client, stack):
    job_id = await submit(client)
    claim = stack.leases.claim(job_id)
    stack.leases.progress({job_id: Progress(step=3, steps=30)})
    following = asyncio.create_task(client.get(f"/v1/jobs/{job_id}/events"))
    while not stack.store.bells:
        await asyncio.sleep(0)
    stack.services.stop()
    async with asyncio.timeout(60):
        response = await following
    seen, farewell = response.text.replace("\r\n", "\n").rsplit("\n\n", 2)[:2]
    assert farewell.startswith(": this server stops")
    assert not stack.store.bells

    stack.services.events, stack.services.stopping = MemoryEvents(stack.store), asyncio.Event()
    stack.leases.finish(job_id, claim.fence, Outcome(status=JobStatus.SUCCEEDED))
    headers = {"Last-Event-ID": events_in(seen)[-1]["id"]}
    rest = events_in((await client.get(f"/v1/jobs/{job_id}/events", headers=headers)).text)
    assert [event["event"] for event in rest] == ["done"]


async def test_who_has_seen_the_end_is_told_not_to_come_back(client, stack):
    job_id = await submit(client)
    await run(stack, job_id, 1)
    everything = events_in((await client.get(f"/v1/jobs/{job_id}/events")).text)
    headers = {"Last-Event-ID": everything[-1]["id"]}
    response = await client.get(f"/v1/jobs/{job_id}/events", headers=headers)
    assert (response.status_code, response.content) == (204, b"")


async def test_a_follower_that_leaves_is_forgotten(client, stack):
    job_id = await submit(client)
    leaving = asyncio.Event()

    async def receive():
        await leaving.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        return None

    path = f"/v1/jobs/{job_id}/events"
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b""}
    scope["headers"] = [(b"host", b"api.test")]
    following = asyncio.create_task(client._transport.app(scope, receive, send))
    while not stack.store.bells and not following.done():
        await asyncio.sleep(0)
    leaving.set()
    async with asyncio.timeout(60):
        await following
    assert not stack.store.bells
