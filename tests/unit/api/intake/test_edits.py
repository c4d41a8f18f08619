"""Edits from their submit to the record: what is refused leaves nothing, what is accepted all."""

import base64
from hashlib import sha256

import pytest

from core.errors import ObjectsUnavailable, StoreRefused, StoreUnavailable
from core.job import Task
from storage.fakes import MemoryExpectedJobs
from tasks.submit import Submitter
from tasks.upkeep.orphaned_inputs import GRACE_S, OrphanedInputs
from tests.unit.api.conftest import Stack
from tests.unit.api.pictures import a_mask, a_photo, data_url, opened

EDIT = {
    "task": "edit",
    "prompt": "a blue star",
    "template": data_url(a_photo()),
    "mask": data_url(a_mask()),
}


async def edit(client, **changes):
    response = await client.post("/v1/jobs", json=EDIT | changes)
    assert response.status_code == 202, response.text
    return response.json()


async def refused(client, stack, **changes):
    """Ask for an edit that is refused; return why, by field."""
    before = stack.stored(), list(stack.store.records), list(stack.scheduler.calls)
    response = await client.post("/v1/jobs", json=EDIT | changes)
    assert response.status_code == 422, response.text
    assert (stack.stored(), list(stack.store.records), list(stack.scheduler.calls)) == before
    return {error["field"]: error["detail"] for error in response.json()["errors"]}


async def keep(client, data, shelf="files"):
    headers = {"content-type": "image/png"}
    response = await client.post(f"/v1/{shelf}", content=data, headers=headers)
    assert response.status_code == 201, response.text
    return response.json()["id"]


async def test_an_edit_is_stored_with_its_images(client, stack):
    job = await edit(client, strength=0.8, n=2, seed=5)
    request = stack.store.records[job["id"]].job.request
    folder = f"default/{job['id']}/inputs"
    assert request.task is Task.EDIT
    assert (request.edit.template, request.edit.mask) == (
        f"{folder}/template.png",
        f"{folder}/mask.png",
    )
    template, mask = (stack.objects.get(k) for k in (request.edit.template, request.edit.mask))
    assert request.edit.template_sha256 == sha256(template).hexdigest()
    assert opened(template).tobytes() == opened(a_photo()).tobytes()
    assert (opened(mask).mode, opened(mask).size) == ("L", (64, 64))
    assert stack.store.pop("gen.small")


async def test_an_edit_says_how_much_it_masks_and_what_it_asks_of_whoever_makes_it(client, stack):
    job = await edit(client, mask=data_url(a_mask(box=(0, 0, 32, 16))), n=2)
    [query] = stack.scheduler.calls[-1]
    assert stack.store.records[job["id"]].job.request.edit.masked == 1 / 8
    assert {(work.job, work.masked, work.pixels) for work in query.works} == {
        (job["id"], 1 / 8, 64 * 64)
    }
    assert sorted(work.model for work in query.works) == sorted(2 * query.models)
    await edit(client, quality="exact")
    assert stack.scheduler.calls[-1][0].works == ()


async def test_edits_of_one_template_share_their_noise_unless_told_otherwise(client):
    first, second = [(await edit(client, prompt=prompt))["seed"] for prompt in ("one", "two")]
    other = await edit(client, template=data_url(a_photo(mode="L")))
    assert first == second != other["seed"]
    assert (await edit(client, seed=5))["seed"] == 5


async def test_an_edit_shows_its_strength_and_its_pictures_by_urls_of_ours_alone(client):
    job = await edit(client, strength=0.8)
    read = await client.get(f"/v1/jobs/{job['id']}")
    assert (job["task"], job["strength"], job["n"]) == ("edit", 0.8, 1)
    assert (job["width"], job["height"]) == (64, 64)
    assert "data:" not in read.text
    assert all(job[name].startswith("http://api.test/files/") for name in ("template", "mask"))
    generated = await client.post("/v1/jobs", json={"prompt": "a star"})
    assert generated.json()["strength"] is None


async def test_an_edit_has_the_size_of_its_template(client, stack):
    wide = {"template": data_url(a_photo(96, 64)), "mask": data_url(a_mask(96, 64))}
    job = await edit(client, **wide)
    asked = await edit(client, **wide, width=96, height=64)
    assert (job["width"], job["height"], job["model"]) == (96, 64, "small")
    assert (asked["width"], asked["height"]) == (96, 64)
    assert stack.scheduler.calls[0][0].models == ("small",)


async def test_a_size_that_is_not_the_templates_is_refused(client, stack):
    faults = await refused(client, stack, width=80, height=64)
    assert faults == {"width": "must be 64, as the template's is, or left out"}


async def test_a_template_of_a_size_that_no_model_makes_is_refused(client, stack):
    odd = {"template": data_url(a_photo(65, 64)), "mask": data_url(a_mask(65, 64))}
    faults = await refused(client, stack, **odd)
    assert "is 65 x 64 pixels" in faults["template"]
    assert "a multiple of 16 from 64 to 128 or a multiple of 32 from 128" in faults["template"]
    assert "of 16" not in (await refused(client, stack, **odd, model="large"))["template"]


async def test_a_mask_of_another_size_is_refused_naming_both(client, stack):
    faults = await refused(client, stack, mask=data_url(a_mask(64, 80)))
    assert faults == {"mask": "is 64 x 80 pixels, the template 64 x 64: they must be of one size"}


BAD_IMAGES = {
    "text": data_url(b"hello"),
    "nothing": "data:image/png;base64,",
    "cut short": data_url(a_photo()[:-400]),
    "wrong base64": "data:image/png;base64,@@@@",
    "not ASCII": "data:image/png;base64,ü",
    "no padding": "data:image/png;base64,QUJ",
    "no base64": "data:image/png,hello",
    "no comma": "data:image/png;base64",
    "no reference": "photo.png",
    "empty": "",
    "a path": "../../etc/passwd",
    "an unknown id": "0" * 32,
    "an unreachable URL": "https://example.com/none.png",
    "a scheme nobody speaks": "ftp://example.com/a.png",
}


@pytest.mark.parametrize("field", ["template", "mask"])
@pytest.mark.parametrize("name", BAD_IMAGES)
async def test_an_image_that_cannot_be_had_is_refused_by_field(client, stack, field, name):
    faults = await refused(client, stack, **{field: BAD_IMAGES[name]})
    assert faults.keys() == {field}
    assert BAD_IMAGES[name][:60] not in faults[field] or not BAD_IMAGES[name]


async def test_both_images_are_told_at_once(client, stack):
    faults = await refused(client, stack, template=data_url(b"x"), mask=data_url(a_mask(box=None)))
    assert "no PNG" in faults["template"] and "black everywhere" in faults["mask"]


async def test_pixels_are_counted_before_anything_is_decoded(tmp_path):
    stack = Stack(tmp_path, max_pixels=64 * 64 - 1)
    async with stack.client() as client:
        assert "at most 4095" in (await refused(client, stack))["template"]


async def test_a_mask_may_be_white_everywhere(client):
    await edit(client, mask=data_url(a_mask(box=(0, 0, 64, 64))))


async def test_images_are_fetched_from_their_urls(client, stack):
    stack.web = {"https://example.com/a.png": a_photo(), "https://example.com/m.png": a_mask()}
    template, mask = stack.web
    job = await edit(client, template=template, mask=mask)
    assert sorted(stack.fetched) == sorted(stack.web)
    assert len(stack.stored()) == 2
    assert "example.com" not in (await client.get(f"/v1/jobs/{job['id']}")).text


async def test_a_template_is_used_by_id_and_may_be_deleted_while_jobs_wait(client, stack):
    template = await keep(client, a_photo(), "templates")
    first, second = [await edit(client, template=template) for _ in range(2)]
    assert (await client.delete(f"/v1/templates/{template}")).status_code == 200
    edits = [stack.store.records[job["id"]].job.request.edit for job in (first, second)]
    assert edits[0].template_sha256 == edits[1].template_sha256
    assert opened(stack.objects.get(edits[0].template)).size == (64, 64)
    later = await client.post("/v1/jobs", json=EDIT | {"template": template})
    assert later.json()["errors"][0]["field"] == "template"


async def test_a_kept_template_and_the_same_image_sent_along_have_one_digest(client, stack):
    template = await keep(client, a_photo(), "templates")
    jobs = [await edit(client, template=template), await edit(client)]
    digests = {stack.store.records[j["id"]].job.request.edit.template_sha256 for j in jobs}
    assert len(digests) == 1


async def test_files_serve_as_template_and_as_mask(client, stack):
    photo, mask = await keep(client, a_photo(kind="webp")), await keep(client, a_mask())
    job = await edit(client, template=photo, mask=mask)
    assert opened(stack.objects.get(f"default/{job['id']}/inputs/template.png")).format == "PNG"


async def test_a_template_is_no_mask(client, stack):
    template = await keep(client, a_mask(), "templates")
    assert await refused(client, stack, mask=template) == {
        "mask": "is the id of no file that is kept here"
    }


async def test_other_tenants_images_are_as_if_they_were_not_there(tmp_path):
    stack = Stack(tmp_path, api_keys={"k1": "one", "k2": "two"})
    async with stack.client(Authorization="Bearer k1") as client:
        template, mask = await keep(client, a_photo(), "templates"), await keep(client, a_mask())
        theirs = {"Authorization": "Bearer k2"}
        body = EDIT | {"template": template, "mask": mask}
        response = await client.post("/v1/jobs", json=body, headers=theirs)
        missing = EDIT | {"template": "0" * 32, "mask": "1" * 32}
        nothing = await client.post("/v1/jobs", json=missing, headers=theirs)
        assert response.status_code == nothing.status_code == 422
        assert response.json()["errors"] == nothing.json()["errors"]
        assert {e["field"] for e in response.json()["errors"]} == {"template", "mask"}
        assert (await client.post("/v1/jobs", json=body)).status_code == 202


async def test_a_repeated_key_fetches_and_stores_nothing_again(client, stack):
    stack.web = {"https://example.com/a.png": a_photo()}
    body, headers = EDIT | {"template": "https://example.com/a.png"}, {"Idempotency-Key": "k"}
    first = await client.post("/v1/jobs", json=body, headers=headers)
    kept, stack.web = stack.stored(), {}
    again = await client.post("/v1/jobs", json=body, headers=headers)
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    assert again.headers["idempotent-replayed"] == "true"
    assert len(stack.fetched) == 1 and stack.stored() == kept
    other = await client.post("/v1/jobs", json=body | {"strength": 0.5}, headers=headers)
    assert other.status_code == 409 and len(stack.fetched) == 1


async def test_of_two_requests_with_one_key_the_later_leaves_nothing(client, stack):
    async def nothing_yet(tenant, key, digest):
        return None

    headers = {"Idempotency-Key": "k"}
    first = await client.post("/v1/jobs", json=EDIT, headers=headers)
    stack.jobs.earlier = nothing_yet
    again = await client.post("/v1/jobs", json=EDIT, headers=headers)
    assert again.json()["id"] == first.json()["id"]
    other = await client.post("/v1/jobs", json=EDIT | {"n": 2}, headers=headers)
    assert other.status_code == 409
    assert {key.split("/")[1] for key in stack.stored()} == {first.json()["id"]}


async def test_an_edit_that_finds_its_queue_full_leaves_nothing(tmp_path):
    stack = Stack(tmp_path, max_queue=1)
    async with stack.client() as client:
        job = await edit(client)
        assert (await client.post("/v1/jobs", json=EDIT)).status_code == 429
        assert {key.split("/")[1] for key in stack.stored()} == {job["id"]}


async def test_an_edit_that_nobody_can_place_leaves_nothing(client, stack):
    stack.scheduler.plan = None
    assert (await client.post("/v1/jobs", json=EDIT)).status_code == 503
    assert stack.is_untouched()


async def test_a_store_that_is_away_is_found_before_anything_is_left(client, stack):
    stack.is_store_up = False
    assert (await client.post("/v1/jobs", json=EDIT)).status_code == 503
    assert stack.is_untouched()


async def test_a_store_that_is_full_is_left_nothing_by_each_try(client, stack):
    class Full:
        async def submit(self, jobs):
            raise StoreRefused("OutOfMemoryError: used memory > 'maxmemory'")

    stack.services.submitter = Submitter(Full())
    for _ in range(2):
        answer = await client.post("/v1/jobs", json=EDIT)
        assert (answer.status_code, answer.json()["dependency"]) == (503, "store")
        assert int(answer.headers["retry-after"]) > 0
    assert stack.is_untouched()


async def test_a_job_that_may_have_been_stored_keeps_its_images(client, stack):
    stack.services.submitter = Submitter(Lossy(stack.jobs))
    assert (await client.post("/v1/jobs", json=EDIT)).status_code == 503
    (record,) = stack.store.records.values()
    assert record.job.request.edit.template in stack.stored()


async def test_images_whose_job_never_came_are_deleted_and_no_others(client, stack):
    job = await edit(client)
    for lossy in (Lossy(stack.jobs), Lossy(None)):
        stack.services.submitter = Submitter(lossy)
        assert (await client.post("/v1/jobs", json=EDIT)).status_code == 503
    came = {key for key in stack.stored() if key.split("/")[1] in stack.store.records}
    assert job["id"] in {key.split("/")[1] for key in came} and len(stack.stored()) > len(came)
    inputs = OrphanedInputs(MemoryExpectedJobs(stack.store), stack.objects)
    clock = stack.store.clock
    await inputs.sweep()
    assert len(stack.stored()) > len(came), "it may come yet"
    stack.store.clock = lambda: clock() + GRACE_S
    await inputs.sweep()
    assert set(stack.stored()) == came and not stack.store.expected


class Lossy:
    """A job store whose answers are lost, and where there is none requests too."""

    def __init__(self, jobs):
        self.jobs = jobs

    async def submit(self, jobs):
        if self.jobs is not None:
            await self.jobs.submit(jobs)
        raise StoreUnavailable("no answer")


async def test_an_object_store_that_fails_halfway_leaves_nothing(client, stack):
    def full(key, data, content_type):
        if key.endswith("mask.png"):
            raise ObjectsUnavailable("disk full")
        put(key, data, content_type)

    put, stack.objects.put = stack.objects.put, full
    response = await client.post("/v1/jobs", json=EDIT)
    assert (response.status_code, response.json()["dependency"]) == (503, "objects")
    assert stack.is_untouched()


async def test_images_never_reach_the_log(client, logs):
    await edit(client)
    await client.post("/v1/jobs", json=EDIT | {"template": "https://example.com/x?token=hush"})
    assert "hush" not in repr(logs) and "base64" not in repr(logs)
    assert base64.b64encode(a_photo())[:40].decode() not in repr(logs)
