import asyncio
import json
from pathlib import Path

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from atelier_client import (
    AsyncClient,
    Client,
    ClientError,
    DoneEvent,
    Forbidden,
    InvalidRequest,
    JobFailed,
    JobStatus,
    NoAnswer,
    NotFound,
    Unauthorized,
    WaitTimeout,
    WrongBytes,
)
from core.job import Failure
from core.job import JobStatus as Stored
from storage.jobs.leases import Outcome
from tests.unit.api.conftest import Stack
from tests.unit.api.facades.worker import IMAGE, only_request, worker
from tests.unit.api.pictures import a_mask, a_photo
from tests.unit.atelier_client.conftest import Caller


async def test_an_image_is_made_fetched_and_saved(caller, stack, tmp_path):
    async with worker(stack):
        job = await caller.ask(
            lambda c: c.images.generate("a red circle", seed=7, n=2, metadata={"order": "1"})
        )
    assert (job.status, job.prompt, job.metadata) == ("succeeded", "a red circle", {"order": "1"})
    assert [image.seed for image in job.images] == [7, 8]
    assert await caller.ask(lambda c: c.images.fetch(job.images[0])) == IMAGE
    path = tmp_path / "made" / "circle.png"
    assert await caller.ask(lambda c: c.images.save(job.images[1], path)) == path
    assert path.read_bytes() == IMAGE


async def test_an_edit_takes_files_bytes_and_what_is_kept(caller, stack, tmp_path):
    (tmp_path / "mask.png").write_bytes(a_mask())
    kept = await caller.ask(lambda c: c.templates.add(a_photo()))
    async with worker(stack):
        job = await caller.ask(
            lambda c: c.images.edit("a star", template=kept, mask=tmp_path / "mask.png")
        )
    assert (job.task, job.width) == ("edit", kept.width)
    async with worker(stack):
        job = await caller.ask(
            lambda c: c.images.edit("a star", template=a_photo(), mask=a_mask(), strength=0.5)
        )
    assert job.strength == 0.5


@pytest.mark.parametrize("prompt", ["a red circle", "pasted\u2028from a\u2029page"])
async def test_a_job_is_followed_to_its_end(caller, stack, prompt):
    job = await caller.ask(lambda c: c.jobs.create(prompt))
    async with worker(stack):
        events = await caller.gather(lambda c: c.jobs.stream(job.id, previews=True))
    assert isinstance(events[-1], DoneEvent)
    assert events[-1].job.images
    assert events[-1].job.prompt == prompt


async def test_hundreds_of_jobs_are_waited_for_at_once():
    """Each waits in a request of its own; none is answered before the last has come."""
    count, arrived = 300, asyncio.Event()
    waiting = 0

    async def answer(request):
        nonlocal waiting
        waiting += 1
        if waiting == count:
            arrived.set()
        await arrived.wait()
        return web.json_response({"id": request.match_info["id"], "status": "succeeded"})

    app = web.Application()
    app.router.add_get("/v1/jobs/{id}", answer)
    async with TestServer(app) as server, AsyncClient(str(server.make_url("/"))) as client:
        async with asyncio.timeout(60):
            jobs = await asyncio.gather(*(client.jobs.wait(f"j{i}") for i in range(count)))
    assert [job.id for job in jobs] == [f"j{i}" for i in range(count)]


async def test_a_job_that_fails_is_an_exception_with_the_job(caller, stack):
    failure = Failure(type="engine_error", title="It broke", detail="at step 3")
    async with worker(stack, Outcome(status=Stored.FAILED, failure=failure)):
        with pytest.raises(JobFailed, match="It broke: at step 3") as raised:
            await caller.ask(lambda c: c.images.generate("a red circle"))
    assert raised.value.job.status is JobStatus.FAILED


async def test_a_wait_that_is_over_leaves_the_job_alone(caller):
    job = await caller.ask(lambda c: c.jobs.create("a red circle"))
    with pytest.raises(WaitTimeout):
        await caller.ask(lambda c: c.jobs.wait(job.id, timeout_s=0.05))
    assert (await caller.ask(lambda c: c.jobs.get(job.id))).status is JobStatus.QUEUED
    canceled = await caller.ask(lambda c: c.jobs.cancel(job.id))
    assert (await caller.ask(lambda c: c.jobs.wait(job.id))).status == canceled.status == "canceled"
    assert (await caller.ask(lambda c: c.jobs.delete(job.id))).id == job.id
    with pytest.raises(NotFound):
        await caller.ask(lambda c: c.jobs.get(job.id))


async def test_what_is_listed_comes_page_by_page(caller, stack):
    made = [await caller.ask(lambda c: c.jobs.create("x")) for _ in range(5)]
    page = await caller.ask(lambda c: c.jobs.list(limit=2))
    rest = await caller.ask(lambda c: c.jobs.list(limit=4, cursor=page.cursor))
    newest = sorted(made, key=lambda job: (job.created_at, job.id), reverse=True)
    ids = [job.id for job in newest]  # some of one millisecond
    assert [job.id for job in (*page.data, *rest.data)] == ids
    assert [job.id for job in await caller.gather(lambda c: c.jobs.all())] == ids
    assert await caller.gather(lambda c: c.jobs.all(status="failed")) == []


async def test_a_refusal_names_the_fields_and_the_request(caller, stack):
    with pytest.raises(InvalidRequest) as raised:
        await caller.ask(lambda c: c.jobs.create("", n=99))
    refused = raised.value
    assert {each.field for each in refused.errors} == {"prompt", "n"}
    assert (refused.status, bool(refused.request_id)) == (422, True)
    assert "prompt" in str(refused)
    assert json.loads(refused.body)["status"] == 422
    assert stack.is_untouched()


async def test_pictures_are_kept_read_and_deleted(caller, tmp_path):
    (tmp_path / "photo.png").write_bytes(a_photo())
    kept = await caller.ask(lambda c: c.files.add(tmp_path / "photo.png"))
    assert (kept.width, kept.object, kept.content_type) == (64, "file", "image/png")
    assert await caller.gather(lambda c: c.files.all()) == [
        await caller.ask(lambda c: c.files.get(kept.id))
    ]
    assert (await caller.ask(lambda c: c.files.delete(kept.id))).id == kept.id
    assert (await caller.ask(lambda c: c.files.list())).data == ()


async def test_what_is_served_and_registered_is_read(caller):
    listed = await caller.ask(lambda c: c.models.list())
    assert {model.id for model in listed.data} == {"small", "large"} and listed.max_images == 4
    assert (await caller.ask(lambda c: c.models.get("small"))).sizes.min
    added = await caller.ask(lambda c: c.applications.add("avatars", models=["small"], slo_s=5.0))
    assert (await caller.ask(lambda c: c.applications.list())).data == (added,)
    assert (await caller.ask(lambda c: c.applications.delete("avatars"))).name == "avatars"
    assert (await caller.ask(lambda c: c.controlnets.list())).data[0].id
    assert (await caller.ask(lambda c: c.ip_adapters.list())).data == ()
    assert (await caller.ask(lambda c: c.service.fleet())).workers == ()
    assert (await caller.ask(lambda c: c.webhooks.dead())).data == ()


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
async def test_keys_are_made_used_rotated_and_revoked(kind, tmp_path):
    operated = Stack(tmp_path, operator_keys=("boss",))
    async with operated.client() as http:
        app = http._transport.app
        boss = Caller(kind, app, "boss")
        key = await boss.ask(lambda c: c.keys.add("acme", scopes=["read"], expires_in_s=60.0))
        reader = Caller(kind, app, key.key)
        assert (await reader.ask(lambda c: c.jobs.list())).data == ()
        with pytest.raises(Forbidden):
            await reader.ask(lambda c: c.jobs.create("x"))
        heir = await boss.ask(lambda c: c.keys.rotate(key.id, overlap_s=0.0))
        assert heir.replaces == key.id
        assert (await boss.ask(lambda c: c.keys.revoke(heir.id))).status == "revoked"
        with pytest.raises(Unauthorized):
            await Caller(kind, app, heir.key).ask(lambda c: c.jobs.list())
        assert len((await boss.ask(lambda c: c.keys.list(tenant="acme"))).data) == 2


async def test_the_bytes_of_an_answer_are_there_for_who_wants_them(caller):
    job = await caller.ask(lambda c: c.jobs.create("a red circle"))
    reply = await caller.ask(lambda c: c.jobs.get.raw(job.id))
    assert json.loads(reply.body)["id"] == reply.value.id == job.id


async def test_the_same_key_is_the_same_job(caller, stack):
    first = await caller.ask(lambda c: c.jobs.create("x", idempotency_key="mine"))
    again = await caller.ask(lambda c: c.jobs.create("x", idempotency_key="mine"))
    assert first.id == again.id
    assert len(stack.store.records) == 1


async def test_who_waits_again_with_the_same_key_waits_for_the_same_job(caller, stack):
    pictures = {"template": a_photo(), "mask": a_mask()}
    calls = (
        lambda c: c.images.generate("x", idempotency_key="made"),
        lambda c: c.images.edit("x", **pictures, idempotency_key="changed"),
    )
    for call in calls:
        async with worker(stack):
            first = await caller.ask(call)
        assert (await caller.ask(call)).id == first.id  # which nobody would make anew
    assert len(stack.store.records) == len(calls)


class Flaky(httpx.AsyncBaseTransport):
    """Brings a request to the app, and loses the first answers on their way back."""

    def __init__(self, app, losses):
        self.asgi = httpx.ASGITransport(app)
        self.losses = losses

    async def handle_async_request(self, request):
        response = await self.asgi.handle_async_request(request)
        if self.losses:
            self.losses -= 1
            raise httpx.ReadError("connection reset", request=request)
        return response


async def test_a_submit_whose_answer_is_lost_makes_one_job(app, stack):
    client = AsyncClient("http://api.test", transport=Flaky(app, 1))
    job = await client.jobs.create("a red circle", n=2)
    assert list(stack.store.records) == [job.id]
    assert only_request(stack).n == 2
    with pytest.raises(NoAnswer, match="reset"):
        await AsyncClient("http://api.test", transport=Flaky(app, 1)).files.add(a_photo())


async def test_a_key_goes_to_the_service_and_to_no_store_of_images(app, stack):
    seen = []

    async def note(request):
        seen.append((request.url.path, request.headers.get("authorization")))

    client = AsyncClient("http://api.test", "secret", transport=httpx.ASGITransport(app))
    client._transport.http.event_hooks = {"request": [note]}
    async with worker(stack):
        job = await client.images.generate("a red circle")
    await client.images.fetch(job.images[0])
    assert {bearer for path, bearer in seen if path.startswith("/v1/")} == {"Bearer secret"}
    assert [bearer for path, bearer in seen if path.startswith("/files/")] == [None]


async def test_an_image_that_is_another_is_not_taken(caller, stack):
    async with worker(stack):
        job = await caller.ask(lambda c: c.images.generate("a red circle"))
    (path,) = [each for each in stack.stored() if each.endswith("0.png")]
    Path(stack.folder, path).write_bytes(b"another")
    with pytest.raises(WrongBytes) as raised:
        await caller.ask(lambda c: c.images.fetch(job.images[0]))
    assert "signature" not in str(raised.value)


def test_settings_come_from_the_environment_and_a_bad_key_is_told(monkeypatch):
    monkeypatch.setenv("ATELIER_URL", "http://elsewhere:1")
    monkeypatch.setenv("ATELIER_API_KEY", "secret")
    with Client() as client:
        settings = client._transport._settings
        assert (settings.url, settings.key) == ("http://elsewhere:1", "secret")
        assert "secret" not in repr(settings)
    with pytest.raises(ClientError, match="ASCII"):
        Client(key="schlüssel")


def test_who_does_not_answer_like_a_service_is_told():
    page = httpx.MockTransport(lambda request: httpx.Response(200, text="<html>"))
    with Client("http://x", transport=page) as client, pytest.raises(NoAnswer, match="like"):
        client.jobs.get("j")
    refusing = httpx.MockTransport(lambda request: httpx.Response(422, text="<html>"))
    with Client("http://x", transport=refusing) as client, pytest.raises(InvalidRequest):
        client.jobs.get("j")


def test_ids_cannot_leave_their_path():
    seen = []

    def answer(request):
        seen.append(request.url.raw_path)
        return httpx.Response(200, json={"id": "j", "status": "queued"})

    with Client("http://x", transport=httpx.MockTransport(answer)) as client:
        client.jobs.get("../keys?x=1#")
    assert seen == [b"/v1/jobs/..%2Fkeys%3Fx%3D1%23"]


async def test_a_wait_may_be_cancelled(app):
    client = AsyncClient("http://api.test", transport=httpx.ASGITransport(app))
    job = await client.jobs.create("a red circle")
    waiting = asyncio.create_task(client.jobs.wait(job.id))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_file_of_weights_is_sent_as_it_is_read(caller, tmp_path):
    (tmp_path / "style.safetensors").write_bytes(bytes(600_000))
    with pytest.raises(InvalidRequest) as raised:
        await caller.ask(lambda c: c.loras.add(tmp_path / "style.safetensors"))
    assert raised.value.status in (415, 422)
