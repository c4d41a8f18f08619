import asyncio
import itertools
import json
from base64 import b64decode
from dataclasses import replace

import pytest

from core.errors import StoreUnavailable
from core.job import JobStatus, Progress, StoredImage
from core.latents import latents_key
from storage.jobs.leases import Outcome
from tests.unit.api.conftest import PLAN, Stack

GOOD = {"prompt": "a red circle", "model": "small"}


async def submit(client, **changes):
    response = await client.post("/v1/jobs", json=GOOD | changes)
    assert response.status_code == 202, response.text
    return response.json()


def make(stack, job_id, told=None):
    """Do what a worker does, which may have told how far it is."""
    claim = stack.leases.claim(job_id)
    if told is not None:
        stack.leases.progress({job_id: told})
    key = f"default/{job_id}/{claim.fence}/0.png"
    stack.objects.put(key, b"\x89PNG...", "image/png")
    image = StoredImage(key=key, width=64, height=64, seed=1, sha256="ab")
    outcome = Outcome(status=JobStatus.SUCCEEDED, images=(image,))
    assert stack.leases.finish(job_id, claim.fence, outcome)


async def test_a_submit_answers_with_the_job_and_where_to_find_it(client, stack):
    response = await client.post("/v1/jobs", json=GOOD)
    job = response.json()
    assert response.status_code == 202
    assert response.headers["location"] == job["urls"]["self"]
    assert job["urls"] == {
        "self": f"http://api.test/v1/jobs/{job['id']}",
        "cancel": f"http://api.test/v1/jobs/{job['id']}/cancel",
        "events": f"http://api.test/v1/jobs/{job['id']}/events",
    }
    assert (job["object"], job["status"], job["attempts"]) == ("job", "queued", 0)
    assert job["progress"] == {"step": 0, "steps": 30}
    assert job["images"] == [] and job["error"] is None
    assert job["placement"]["queue"] == "gen.small"
    assert job["placement"]["placed_by"] == "scheduler"
    assert stack.store.records[job["id"]].job.status is JobStatus.QUEUED


async def test_defaults_are_those_of_the_model_that_was_chosen(client):
    job = await submit(client, model="large")
    assert (job["width"], job["height"], job["steps"], job["guidance"]) == (128, 128, 30, 5.0)
    assert (job["n"], job["quality"], job["priority"]) == (1, "auto", "interactive")
    assert 0 <= job["seed"] < 2**32


async def test_images_are_written_as_asked_and_said_to_be(client, stack):
    job = await submit(client, output_format="webp")
    assert (job["output_format"], job["output_quality"]) == ("webp", 90)
    assert stack.store.records[job["id"]].job.request.output.ending == "webp"
    plain = await submit(client)
    assert (plain["output_format"], plain["output_quality"]) == ("png", None)


async def test_a_second_pass_is_kept_shown_and_weighed(client, stack):
    job = await submit(client, model="small", second_pass={"scale": 2.0}, steps=20)
    assert job["second_pass"] == {"scale": 2.0, "strength": 0.5, "steps": None}
    assert (job["width"], job["height"]) == (64, 64)
    following = stack.store.records[job["id"]].job.request.following
    assert (following.width, following.strength) == (128, 0.5)
    assert stack.scheduler.calls[-1][0].share == pytest.approx(3.0)


async def test_two_jobs_without_a_seed_get_different_ones(client):
    seeds = {(await submit(client))["seed"] for _ in range(5)}
    assert len(seeds) == 5


async def test_what_the_client_chose_is_kept(client, stack):
    wanted = {
        "negative_prompt": "blue",
        "width": 80,
        "height": 96,
        "steps": 7,
        "guidance": 0,
        "seed": 2**63 - 2,
        "n": 2,
        "scheduler": "dpm++2m",
        "application": "default",
        "quality": "exact",
        "priority": "batch",
        "metadata": {"order": "12"},
    }
    job = await submit(client, **wanted)
    assert {name: job[name] for name in wanted} == wanted
    query = stack.scheduler.calls[0][0]
    assert (query.exact, query.steps, query.rows) == (True, 7, 2)
    assert query.models == ("small",)


async def test_a_job_without_a_model_is_offered_to_those_that_can_make_it(client, stack):
    await client.post("/v1/jobs", json={"prompt": "a red circle"})
    job = (await client.post("/v1/jobs", json={"prompt": "a", "width": 64})).json()
    assert [set(q.models) for call in stack.scheduler.calls for q in call] == [
        {"small", "large"},
        {"small"},
    ]
    assert job["model"] == "small"


async def test_sampler_limits_bound_the_default_steps(client, stack):
    models = stack.services.rules.models
    job = await submit(client, scheduler="lcm")
    assert job["steps"] == min(models["small"].default_steps, 50)


async def test_the_message_on_the_queue_carries_the_id_alone(client, stack):
    job = await submit(client)
    message = json.loads(stack.store.pop("gen.small"))
    assert json.loads(b64decode(message["body"]))[0] == [job["id"]]
    assert "red" not in json.dumps(message) + b64decode(message["body"]).decode()


async def test_batch_jobs_wait_behind_interactive_ones(client):
    late = await submit(client, priority="batch")
    await submit(client)
    read = (await client.get(f"/v1/jobs/{late['id']}")).json()
    assert read["queue_position"] == 1


async def test_the_place_in_the_queue_is_told(client, stack):
    moments = itertools.count(1000)
    stack.store.clock = lambda: float(next(moments))
    jobs = [await submit(client) for _ in range(3)]
    assert [job["queue_position"] for job in jobs] == [0, 1, 2]


async def test_when_it_will_be_done_is_estimated_from_the_fleet(client, stack):
    assert (await submit(client))["eta_s"] is None
    stack.report()
    stack.look(await stack.fleet.read(60))
    assert (await submit(client))["eta_s"] > 0


async def test_the_same_key_and_body_answer_with_the_same_job(client, stack):
    headers = {"Idempotency-Key": "k1"}
    first = await client.post("/v1/jobs", json=GOOD, headers=headers)
    again = await client.post("/v1/jobs", json=GOOD, headers=headers)
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["id"] == again.json()["id"]
    assert first.json()["seed"] == again.json()["seed"]
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert len(stack.store.records) == 1


async def test_the_same_key_for_another_body_is_a_conflict(client, stack):
    headers = {"Idempotency-Key": "k1"}
    await client.post("/v1/jobs", json=GOOD, headers=headers)
    other = await client.post("/v1/jobs", json=GOOD | {"n": 2}, headers=headers)
    assert other.status_code == 409
    assert other.json()["type"].endswith("conflict")
    assert len(stack.store.records) == 1


async def test_a_request_sent_again_needs_no_place(client, stack):
    headers = {"Idempotency-Key": "k1"}
    first = await client.post("/v1/jobs", json=GOOD, headers=headers)
    stack.scheduler.is_up = False
    again = await client.post("/v1/jobs", json=GOOD, headers=headers)
    other = await client.post("/v1/jobs", json=GOOD | {"n": 2}, headers=headers)
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    assert other.status_code == 409
    assert len(stack.scheduler.calls) == 1


async def test_a_cursor_that_no_page_gave_is_refused(client):
    for cursor in ("9999999999999999.a", "1", ".a", "1.a/b"):
        assert (await client.get("/v1/jobs", params={"cursor": cursor})).status_code == 422


async def test_requests_that_arrive_together_are_placed_in_one_call(client, stack):
    await asyncio.gather(*(submit(client, seed=i) for i in range(20)))
    assert len(stack.scheduler.calls) < 20
    assert sum(map(len, stack.scheduler.calls)) == 20


async def test_a_full_queue_is_told_with_a_time_to_come_back(tmp_path):
    stack = Stack(tmp_path, max_queue=1)
    async with stack.client() as client:
        await submit(client)
        refused = await client.post("/v1/jobs", json=GOOD)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1


async def test_a_deadline_is_kept_as_a_moment(client):
    job = await submit(client, deadline_s=60)
    assert job["deadline_at"] == pytest.approx(job["created_at"] + 60, abs=0.1)


async def test_a_job_is_answered_for_even_if_its_place_cannot_be_asked_for(client, stack):
    async def down(job):
        raise StoreUnavailable("gone")

    stack.jobs.queue_position = down
    job = await submit(client)
    assert job["queue_position"] == 0
    again = (await client.get(f"/v1/jobs/{job['id']}")).json()
    assert (again["id"], again["queue_position"]) == (job["id"], None)


async def test_an_unknown_job_is_not_found(client):
    for request in (("GET", ""), ("POST", "/cancel"), ("GET", "/events")):
        response = await client.request(request[0], f"/v1/jobs/nothing{request[1]}")
        assert response.status_code == 404
        assert response.headers["content-type"] == "application/problem+json"


async def test_a_finished_job_has_images_whose_urls_are_signed_at_the_moment(client, stack):
    job = await submit(client)
    make(stack, job["id"])
    read = (await client.get(f"/v1/jobs/{job['id']}")).json()
    (image,) = read["images"]
    assert read["status"] == "succeeded"
    assert image["expires_at"] > read["finished_at"]
    assert (read["queue_position"], read["eta_s"]) == (None, None)
    assert (await client.get(image["url"])).content == b"\x89PNG..."


async def test_a_job_whose_images_are_gone_can_still_be_read(client, stack):
    job = await submit(client)
    make(stack, job["id"])
    image = (await client.get(f"/v1/jobs/{job['id']}")).json()["images"][0]
    stack.objects.delete([made.key for made in stack.store.records[job["id"]].job.images])
    read = await client.get(f"/v1/jobs/{job['id']}")
    assert read.status_code == 200
    assert (await client.get(image["url"])).status_code == 404


async def test_progress_is_shown_while_a_job_runs(client, stack):
    job = await submit(client)
    stack.leases.claim(job["id"])
    stack.leases.progress({job["id"]: Progress(step=3, steps=30)})
    read = (await client.get(f"/v1/jobs/{job['id']}")).json()
    assert read["status"] == "running"
    assert read["progress"] == {"step": 3, "steps": 30}
    assert read["placement"]["worker"] == "w1@h"


async def test_a_job_that_is_made_has_taken_all_its_steps_whatever_its_last_beat_said(
    client, stack
):
    for told in (Progress(step=24, steps=30), None):
        job = await submit(client)
        make(stack, job["id"], told)
        read = (await client.get(f"/v1/jobs/{job['id']}")).json()
        assert (read["status"], read["progress"]) == ("succeeded", {"step": 30, "steps": 30})


async def test_a_long_poll_answers_when_the_job_has_ended(client, stack):
    job = await submit(client)
    waiting = asyncio.create_task(client.get(f"/v1/jobs/{job['id']}?wait=30"))
    while not stack.store.bells:
        await asyncio.sleep(0)
    make(stack, job["id"])
    assert (await waiting).json()["status"] == "succeeded"


async def test_a_long_poll_gives_up_in_time(client):
    job = await submit(client)
    read = await client.get(f"/v1/jobs/{job['id']}?wait=0.01")
    assert read.json()["status"] == "queued"


async def test_a_long_poll_is_answered_when_the_process_stops(client, stack):
    job = await submit(client)
    waiting = asyncio.create_task(client.get(f"/v1/jobs/{job['id']}?wait=60"))
    while not stack.store.bells:
        await asyncio.sleep(0)
    stack.services.stop()
    async with asyncio.timeout(60):
        read = await waiting
    assert (read.status_code, read.json()["status"]) == (200, "queued")


async def test_a_long_poll_ends_with_its_connection(client, stack):
    job = await submit(client)
    answered, asked = asyncio.Event(), asyncio.Event()

    async def receive():
        if not asked.is_set():
            asked.set()
            return {"type": "http.request", "body": b"", "more_body": False}
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        return None

    path = f"/v1/jobs/{job['id']}"
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"wait=60"}
    app = client._transport.app
    headers = [(b"host", b"api.test")]
    polling = asyncio.create_task(app(scope | {"headers": headers}, receive, send))
    while not stack.store.bells:
        await asyncio.sleep(0)
    answered.set()
    async with asyncio.timeout(60):
        await polling
    assert not stack.store.bells


async def test_a_cancel_may_be_repeated(client, stack):
    job = await submit(client)
    for _ in range(2):
        response = await client.post(f"/v1/jobs/{job['id']}/cancel")
        assert (response.status_code, response.json()["status"]) == (200, "canceled")
    assert stack.leases.claim(job["id"]) is None


async def test_a_cancel_after_the_end_changes_nothing(client, stack):
    job = await submit(client)
    make(stack, job["id"])
    response = await client.post(f"/v1/jobs/{job['id']}/cancel")
    assert response.json()["status"] == "succeeded"


async def test_a_job_that_is_deleted_is_nowhere_any_more(client, stack):
    job = await submit(client)
    make(stack, job["id"])
    (image,) = (await client.get(f"/v1/jobs/{job['id']}")).json()["images"]
    assert (await client.get(image["url"])).status_code == 200
    response = await client.delete(f"/v1/jobs/{job['id']}")
    assert response.json() == {"id": job["id"], "object": "job", "deleted": True}
    for gone in (f"/v1/jobs/{job['id']}", f"/v1/jobs/{job['id']}/events", image["url"]):
        assert (await client.get(gone)).status_code == 404
    assert (await client.get("/v1/jobs")).json()["data"] == []
    assert (await client.delete(f"/v1/jobs/{job['id']}")).status_code == 404


async def test_latents_that_are_stored_while_a_job_is_deleted_go_with_it(client, stack):
    job = await submit(client)
    make(stack, job["id"])
    forget = stack.jobs.forget

    async def store_and_forget(job_id):
        key = latents_key("default", job_id, 5)
        stack.objects.put(key, b"latents", "application/octet-stream")
        return await forget(job_id)

    stack.jobs.forget = store_and_forget
    assert (await client.delete(f"/v1/jobs/{job['id']}")).status_code == 200
    assert stack.stored() == []


async def test_a_job_that_is_deleted_while_it_runs_is_stopped(client, stack):
    job = await submit(client)
    claim = stack.leases.claim(job["id"])
    assert (await client.delete(f"/v1/jobs/{job['id']}")).status_code == 200
    outcome = Outcome(status=JobStatus.SUCCEEDED)
    assert not stack.leases.finish(job["id"], claim.fence, outcome)


async def test_another_tenants_job_is_not_deleted(tmp_path):
    stack = Stack(tmp_path, api_keys={"a": "acme", "b": "bolt"})
    async with stack.client(authorization="Bearer a") as client:
        await stack.publish()
        job = await submit(client)
        theirs = {"authorization": "Bearer b"}
        response = await client.delete(f"/v1/jobs/{job['id']}", headers=theirs)
        assert response.status_code == 404
        assert (await client.get(f"/v1/jobs/{job['id']}")).status_code == 200


async def test_jobs_are_listed_newest_first_a_page_at_a_time(client, stack):
    now = 1000.0
    stack.store.clock = lambda: now
    ids = []
    for _ in range(5):
        now += 1
        ids.append((await submit(client))["id"])
    first = (await client.get("/v1/jobs?limit=3")).json()
    rest = (await client.get("/v1/jobs", params={"cursor": first["cursor"]})).json()
    assert [j["id"] for j in first["data"] + rest["data"]] == ids[::-1]
    assert rest["cursor"] is None


async def test_jobs_are_listed_by_status(client, stack):
    done, waits = await submit(client), await submit(client)
    make(stack, done["id"])
    listed = {
        status: [j["id"] for j in (await client.get(f"/v1/jobs?status={status}")).json()["data"]]
        for status in ("queued", "succeeded", "failed")
    }
    assert listed == {"queued": [waits["id"]], "succeeded": [done["id"]], "failed": []}


async def test_a_webhook_goes_with_the_job(client, stack):
    job = await submit(client, webhook={"url": "https://example.com/h", "events": ["started"]})
    hook = stack.store.records[job["id"]].job.request.webhook
    assert (hook.url, hook.events) == ("https://example.com/h", ("started",))


async def test_the_scheduler_learns_whose_latents_would_do_for_each_model(client, stack):
    await client.post("/v1/jobs", json={"prompt": "a red circle", "steps": 20, "guidance": 1.0})
    (query,) = stack.scheduler.calls[0]
    assert query.tenant == "default"
    sizes = {terms.model: (terms.width, terms.height) for terms in query.terms}
    assert sizes == {"small": (64, 64), "large": (128, 128)}
    assert {(terms.steps, terms.is_guided) for terms in query.terms} == {(20, False)}


@pytest.mark.parametrize(
    "changes",
    [{"n": 2}, {"negative_prompt": "a blue square"}, {"quality": "exact"}],
    ids=["several images", "something to avoid", "exact"],
)
async def test_a_job_that_nothing_may_be_left_out_of_starts_from_noise(client, stack, changes):
    await submit(client, **changes)
    (query,) = stack.scheduler.calls[0]
    assert query.terms == ()


async def test_without_a_scheduler_a_job_runs_every_step(client, stack):
    await stack.publish(replace(PLAN, version=2, levels={"small@25": 1.0, "large@25": 1.0}))
    stack.scheduler.is_up = False
    job = await submit(client)
    assert (job["placement"]["placed_by"], job["placement"]["level"]) == ("plan", "small@0")
    assert job["placement"]["skipped_steps"] == 0
