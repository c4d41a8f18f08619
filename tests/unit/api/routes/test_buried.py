"""Jobs that ended for want of attempts, over HTTP: listed, and tried again."""

import asyncio
from dataclasses import replace

import pytest

from api.routes.listing import Shown
from core.job import JobStatus
from storage.fakes import MemorySweeper
from tests.unit.api.conftest import Stack
from tests.unit.api.intake.test_edits import EDIT
from tests.unit.api.routes import test_embeddings as embeddings
from tests.unit.api.routes.test_embeddings import SHAPES
from tests.unit.api.routes.test_jobs import GOOD, make, submit
from tests.unit.api.routes.test_loras import LARGE, SMALL, kept_id


class Late:
    """A clock of the store that is set forward."""

    def __init__(self, clock):
        self._clock, self.by_s = clock, 0.0

    def __call__(self):
        return self._clock() + self.by_s


async def bury(stack, client, **changes):
    """Submit a job and lose its worker, alone, once too often."""
    job = await submit(client, **changes)
    clock = stack.store.clock = Late(stack.store.clock)
    assert stack.leases.claim(job["id"])
    clock.by_s = 20.0
    await MemorySweeper(stack.store, max_attempts=1).reap()
    return job["id"]


async def retry(client, job_id, **options):
    return await client.post(f"/v1/jobs/{job_id}/retry", **options)


async def test_buried_jobs_are_listed_page_by_page_and_say_why(client, stack):
    await submit(client)
    ids = [await bury(stack, client) for _ in range(3)]
    page = (await client.get("/v1/jobs?status=buried&limit=2")).json()
    assert [job["id"] for job in page["data"]] == ids[:0:-1]
    rest = await client.get(f"/v1/jobs?status=buried&limit=2&cursor={page['cursor']}")
    assert [job["id"] for job in rest.json()["data"]] == ids[:1]
    [error] = {job["error"]["type"] for job in page["data"]}
    assert error == "attempts_exhausted"
    assert f"/v1/jobs/{ids[2]}/retry" in page["data"][0]["error"]["detail"]
    assert {job["status"] for job in page["data"]} == {"failed"}


async def test_a_list_knows_every_status_and_the_buried():
    assert {each.value for each in Shown} == {*JobStatus, "buried"}
    assert all(Shown(status).status is status for status in JobStatus)


async def test_a_buried_job_is_tried_again_and_made(client, stack):
    job_id = await bury(stack, client)
    response = await retry(client, job_id)
    job = response.json()
    assert response.status_code == 202
    assert (job["id"], job["status"], job["attempts"], job["error"]) == (job_id, "queued", 0, None)
    assert (await client.get("/v1/jobs?status=buried")).json()["data"] == []
    make(stack, job_id)
    done = (await client.get(f"/v1/jobs/{job_id}")).json()
    assert done["status"] == "succeeded" and done["timing"]["total_s"] < 10.0
    assert "atelier_jobs_dead_total 1.0" in (await client.get("/metrics")).text


async def test_asking_again_changes_nothing_and_afterwards_it_is_a_conflict(client, stack):
    job_id = await bury(stack, client)
    answers = [await retry(client, job_id) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert len(stack.store.lists["gen.small"]) == 2, "the lost claim's message, and one more"
    make(stack, job_id)
    refused = await retry(client, job_id)
    assert refused.status_code == 409
    assert refused.headers["content-type"] == "application/problem+json"
    assert f"job {job_id} is succeeded, not buried" in refused.json()["detail"]


async def test_a_job_that_is_not_buried_is_a_conflict(client):
    job = await submit(client)
    refused = await retry(client, job["id"])
    assert (refused.status_code, refused.json()["status"]) == (409, 409)
    assert refused.json()["title"] == "The job cannot be tried again"
    assert "not buried" in refused.json()["detail"]
    assert (await retry(client, "unknown")).status_code == 404


async def test_another_tenants_buried_job_does_not_exist(tmp_path):
    stack = Stack(tmp_path, api_keys={"key-a": "anna", "key-b": "bert"})
    async with stack.client(authorization="Bearer key-a") as client:
        await stack.publish()
        job_id = await bury(stack, client)
        other = {"authorization": "Bearer key-b"}
        listed = await client.get("/v1/jobs?status=buried", headers=other)
        assert listed.json()["data"] == []
        assert (await retry(client, job_id, headers=other)).status_code == 404
        assert (await retry(client, job_id)).status_code == 202


async def test_a_buried_job_past_its_deadline_says_so(client, stack):
    job_id = await bury(stack, client, deadline_s=30.0)
    stack.store.clock.by_s = 40.0
    refused = await retry(client, job_id)
    assert refused.status_code == 409
    assert "deadline" in refused.json()["detail"] and "anew" in refused.json()["detail"]


@pytest.mark.parametrize("name", ["template", "mask"])
async def test_an_edit_whose_image_is_gone_is_not_tried_again(client, stack, name):
    job_id = await bury(stack, client, **EDIT)
    assert (await retry(client, job_id)).status_code == 202
    other = await bury(stack, client, **EDIT)
    edit = stack.store.records[other].job.request.edit
    await asyncio.to_thread(stack.objects.delete, [getattr(edit, name)])
    refused = await retry(client, other)
    assert (refused.status_code, refused.json()["status"]) == (410, 410)
    assert f"the {name} of job {other} is not kept any more" in refused.json()["detail"]
    assert stack.store.records[other].job.is_buried


async def test_a_job_whose_model_is_not_served_any_more_is_not_tried_again(client, stack):
    job_id = await bury(stack, client)
    stack.services.models = {}
    refused = await retry(client, job_id)
    assert refused.status_code == 410
    assert "model small" in refused.json()["detail"]


async def test_a_job_whose_lora_was_deleted_is_not_tried_again(client, stack):
    stack.shapes |= {"small": SMALL, "large": LARGE}
    lora_id = await kept_id(client)
    job_id = await bury(stack, client, **GOOD | {"loras": [{"id": lora_id}]})
    await client.delete(f"/v1/loras/{lora_id}")
    refused = await retry(client, job_id)
    assert refused.status_code == 410
    assert lora_id in refused.json()["detail"]


async def test_the_description_names_what_a_deletion_and_a_retry_answer(client):
    described = (await client.get("/openapi.json")).json()["paths"]
    assert {"404", "409"} <= described["/v1/jobs/{job_id}"]["delete"]["responses"].keys()
    answers = described["/v1/jobs/{job_id}/retry"]["post"]["responses"]
    assert {"202", "404", "409", "410"} <= answers.keys()


async def test_a_job_whose_embedding_was_deleted_is_not_tried_again(client, stack):
    stack.shapes |= {"small": SHAPES, "large": SHAPES}
    kept = await embeddings.kept_id(client)
    said = {"prompt": "a <cat>", "embeddings": [{"id": kept}]}
    job_id = await bury(stack, client, **GOOD | said)
    await client.delete(f"/v1/embeddings/{kept}")
    refused = await retry(client, job_id)
    assert refused.status_code == 410 and kept in refused.json()["detail"]


def tried_again_meanwhile(stack, job_id, times):
    """Have a job buried and tried again just before it is forgotten, so many times."""
    forget, left = stack.jobs.forget, [times]

    async def retry_and_forget(named):
        if left[0]:
            left[0] -= 1
            record = stack.store.find(job_id)
            if not record.job.is_buried:
                record.job = replace(record.job, status=JobStatus.FAILED, is_buried=True)
            await stack.jobs.retry(job_id, None, record.message)
        return await forget(named)

    stack.jobs.forget = retry_and_forget


async def test_a_job_that_is_tried_again_while_it_is_deleted_is_stopped_and_gone(client, stack):
    job_id = await bury(stack, client)
    tried_again_meanwhile(stack, job_id, 1)
    assert (await client.delete(f"/v1/jobs/{job_id}")).json()["deleted"]
    assert (await client.get(f"/v1/jobs/{job_id}")).status_code == 404
    assert stack.store.records == {}


async def test_a_job_that_is_always_tried_again_is_not_said_to_be_deleted(client, stack):
    job_id = await bury(stack, client)
    tried_again_meanwhile(stack, job_id, 99)
    answer = await client.delete(f"/v1/jobs/{job_id}")
    assert answer.status_code == 409 and job_id in answer.json()["detail"]
    assert (await client.get(f"/v1/jobs/{job_id}")).json()["status"] == "queued"


async def test_a_job_that_two_delete_at_once_is_deleted_to_both(client, stack):
    job_id = await bury(stack, client)
    forget = stack.jobs.forget

    async def forgotten_by_another(named):
        assert await forget(named)
        return await forget(named)

    stack.jobs.forget = forgotten_by_another
    assert (await client.delete(f"/v1/jobs/{job_id}")).status_code == 200
