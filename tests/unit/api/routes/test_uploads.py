"""Templates and files: checked, kept per tenant, read, listed and deleted."""

import pytest

from api.services.record_template import MAX_OPEN, recorder_of
from core.errors import StoreRefused, StoreUnavailable
from core.job import Priority
from tasks.messages import QUEUE_PRIORITY
from tests.unit.api.conftest import Stack
from tests.unit.api.pictures import a_mask, a_photo, opened

PNG = {"content-type": "image/png"}
SHELVES = ["templates", "files"]


async def keep(client, shelf, data=None, **headers):
    response = await client.post(f"/v1/{shelf}", content=data or a_photo(), headers=PNG | headers)
    assert response.status_code == 201, response.text
    return response.json()


@pytest.mark.parametrize("shelf", SHELVES)
async def test_an_image_is_kept_and_shown(client, stack, shelf):
    response = await client.post(f"/v1/{shelf}", content=a_photo(96, 64), headers=PNG)
    kept = response.json()
    assert response.status_code == 201
    assert response.headers["location"] == f"http://api.test/v1/{shelf}/{kept['id']}"
    assert (kept["object"] + "s", kept["width"], kept["height"]) == (shelf, 96, 64)
    assert stack.stored() == [f"default/{shelf}/{kept['id']}.png"]
    read = (await client.get(f"/v1/{shelf}/{kept['id']}")).json()
    listed = (await client.get(f"/v1/{shelf}")).json()
    urls = ("url", "expires_at")
    assert {k: v for k, v in read.items() if k not in urls} == {
        k: v for k, v in kept.items() if k not in urls
    }
    assert [each["id"] for each in listed["data"]] == [kept["id"]]
    image = await client.get(read["url"])
    assert opened(image.content).size == (96, 64)


async def test_a_file_is_kept_as_it_came_and_a_template_as_edits_read_it(client, stack):
    photo = a_photo(kind="jpeg")
    file, template = await keep(client, "files", photo), await keep(client, "templates", photo)
    assert (file["content_type"], template["content_type"]) == ("image/jpeg", "image/png")
    assert stack.objects.get(f"default/files/{file['id']}.jpg") == photo
    stored = opened(stack.objects.get(f"default/templates/{template['id']}.png"))
    assert (stored.format, stored.mode) == ("PNG", "RGB")


@pytest.mark.parametrize("shelf", SHELVES)
async def test_what_is_deleted_is_gone(client, stack, shelf):
    kept = await keep(client, shelf)
    gone = await client.delete(f"/v1/{shelf}/{kept['id']}")
    assert gone.json() == {"id": kept["id"], "object": shelf[:-1], "deleted": True}
    assert stack.stored() == []
    for method in ("GET", "DELETE"):
        assert (await client.request(method, f"/v1/{shelf}/{kept['id']}")).status_code == 404
    assert (await client.get(f"/v1/{shelf}")).json()["data"] == []
    assert (await client.get(kept["url"])).status_code == 404


@pytest.mark.parametrize("shelf", SHELVES)
async def test_other_tenants_things_are_not_there(tmp_path, shelf):
    stack = Stack(tmp_path, api_keys={"k1": "one", "k2": "two"})
    async with stack.client(Authorization="Bearer k1") as client:
        path = f"/v1/{shelf}/{(await keep(client, shelf))['id']}"
        theirs = {"Authorization": "Bearer k2"}
        for method in ("GET", "DELETE"):
            assert (await client.request(method, path, headers=theirs)).status_code == 404
        assert (await client.get(f"/v1/{shelf}", headers=theirs)).json()["data"] == []
        assert (await client.get(path)).status_code == 200
        for method in ("GET", "POST"):
            nobody = {"Authorization": "Bearer k3"}
            response = await client.request(method, f"/v1/{shelf}", headers=nobody)
            assert response.status_code == 401


@pytest.mark.parametrize("shelf", SHELVES)
async def test_the_other_shelf_does_not_have_it(client, shelf):
    (other,) = {*SHELVES} - {shelf}
    kept = await keep(client, shelf)
    assert (await client.get(f"/v1/{other}/{kept['id']}")).status_code == 404


@pytest.mark.parametrize("shelf", SHELVES)
@pytest.mark.parametrize("data", [b"", b"hello", a_photo()[:-300], b"GIF89a" + bytes(50)])
async def test_what_is_no_image_is_refused_with_nothing_stored(client, stack, shelf, data):
    response = await client.post(f"/v1/{shelf}", content=data, headers=PNG)
    assert response.status_code == 422
    assert [error["field"] for error in response.json()["errors"]] == ["body"]
    assert stack.is_untouched() and not stack.store.uploads


async def test_a_template_that_no_model_can_edit_is_refused_naming_sizes(client, stack):
    response = await client.post("/v1/templates", content=a_photo(65, 64), headers=PNG)
    detail = response.json()["errors"][0]["detail"]
    assert "is 65 x 64 pixels" in detail and "a multiple of 16 from 64 to 128" in detail
    assert stack.is_untouched()
    await keep(client, "files", a_photo(65, 64))


@pytest.mark.parametrize(
    ("shelf", "kind"),
    [
        ("templates", "multipart/form-data; boundary=x"),
        ("templates", None),
        ("files", "text/plain"),
        ("files", None),
    ],
)
async def test_another_media_type_is_refused(client, stack, shelf, kind):
    headers = {"content-type": kind} if kind else {}
    response = await client.post(f"/v1/{shelf}", content=a_photo(), headers=headers)
    assert response.status_code == 415
    assert "as the body" in response.json()["detail"]
    assert stack.is_untouched()


@pytest.mark.parametrize(
    "body", [b"", a_photo(), b"--x\r\n", b"--x\r\n\r\n\r\n--x--", b"--x" * 1000]
)
async def test_a_form_that_brings_no_file_is_refused(client, stack, body):
    headers = {"content-type": "multipart/form-data; boundary=x"}
    response = await client.post("/v1/files", content=body, headers=headers)
    assert response.status_code == 422
    assert stack.is_untouched()


async def test_an_upload_over_the_limit_is_refused(tmp_path):
    stack = Stack(tmp_path, max_body_bytes=1000)
    async with stack.client() as client:
        response = await client.post("/v1/files", content=bytes(1001), headers=PNG)
    assert response.status_code == 413


async def test_a_tenant_keeps_no_more_than_it_may(tmp_path):
    stack = Stack(tmp_path, max_uploads=1)
    async with stack.client() as client:
        kept = await keep(client, "files")
        response = await client.post("/v1/files", content=a_mask(), headers=PNG)
        assert (response.status_code, response.headers["retry-after"]) == (429, "60")
        assert stack.stored() == [f"default/files/{kept['id']}.png"]


async def test_a_store_that_is_away_is_found_before_anything_is_left(client, stack):
    stack.is_store_up = False
    response = await client.post("/v1/files", content=a_photo(), headers=PNG)
    assert response.status_code == 503
    assert stack.stored() == []


@pytest.mark.parametrize("shelf", SHELVES)
@pytest.mark.parametrize(("error", "left"), [(StoreRefused, 0), (StoreUnavailable, 1)])
async def test_what_the_store_refuses_leaves_nothing_and_what_it_may_have_stays(
    client, stack, shelf, error, left
):
    async def add(*arguments):
        raise error("no")

    stack.uploads.add = add
    response = await client.post(f"/v1/{shelf}", content=a_photo(), headers=PNG)
    assert (response.status_code, response.json()["dependency"]) == (503, "store")
    assert len(stack.stored()) == left


async def test_a_delete_that_fails_halfway_may_be_repeated(client, stack):
    async def down(*arguments):
        raise StoreUnavailable("gone")

    kept = await keep(client, "templates")
    remove, stack.uploads.remove = stack.uploads.remove, down
    assert (await client.delete(f"/v1/templates/{kept['id']}")).status_code == 503
    stack.uploads.remove = remove
    assert (await client.delete(f"/v1/templates/{kept['id']}")).status_code == 200
    assert stack.stored() == [] and not stack.store.uploads


async def test_uploads_are_listed_newest_first_a_page_at_a_time(client, stack):
    now = 1000.0
    stack.store.clock = lambda: now
    ids = []
    for _ in range(3):
        now += 1
        ids.append((await keep(client, "files"))["id"])
    first = (await client.get("/v1/files?limit=2")).json()
    rest = (await client.get("/v1/files", params={"cursor": first["cursor"]})).json()
    assert [each["id"] for each in first["data"] + rest["data"]] == ids[::-1]
    assert rest["cursor"] is None
    assert (await client.get("/v1/files?cursor=x")).status_code == 422


async def test_a_kept_template_is_recorded_when_nobody_waits(client, stack):
    kept = await keep(client, "templates")
    [record] = stack.store.records.values()
    request = record.job.request
    assert record.job.tenant == recorder_of("default")
    assert request.edit.only_records and request.edit.template_sha256 == kept["sha256"]
    assert (request.priority, request.seed) == (Priority.BATCH, request.edit.default_seed)
    assert (await client.get("/v1/jobs")).json()["data"] == []


async def test_a_template_is_kept_though_nobody_can_record_it_now(client, stack):
    stack.scheduler.plan = None
    await keep(client, "templates")
    await keep(client, "files")
    assert not stack.store.records


async def test_recordings_wait_behind_all_others_and_a_tenant_has_few(client, stack):
    for _ in range(3 * MAX_OPEN):
        await keep(client, "templates")
    assert len(stack.store.records) == MAX_OPEN
    assert {record.job.tenant for record in stack.store.records.values()} == {
        recorder_of("default")
    }
    [queue] = {record.job.placement.queue for record in stack.store.records.values()}
    assert await stack.jobs.ahead(queue, QUEUE_PRIORITY[Priority.BATCH], "default") == 0
