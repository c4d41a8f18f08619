"""OpenAI's own client, unmodified, against the api over in-memory fakes."""

import asyncio
import base64
import json
from contextlib import asynccontextmanager
from io import BytesIO

import httpx2
import openai
import pytest
from openai.types import ImageEditCompletedEvent, ImageGenCompletedEvent
from PIL import Image

from core.job import Failure, JobStatus, Progress, Quality
from storage.jobs.leases import Outcome
from tests.unit.api.conftest import Stack
from tests.unit.api.facades.worker import IMAGE, deliver, only_request, worker
from tests.unit.api.pictures import a_photo, saved


@pytest.fixture
async def ai(client) -> openai.AsyncOpenAI:
    return client_of(client)


def client_of(http) -> openai.AsyncOpenAI:
    """Speak to the app that another client speaks to: theirs has an HTTP library of its own."""
    transport = httpx2.ASGITransport(http._transport.app, raise_app_exceptions=False)
    return openai.AsyncOpenAI(
        api_key="k",
        base_url="http://api.test/v1",
        http_client=httpx2.AsyncClient(transport=transport),
        max_retries=0,
    )


async def test_images_come_as_base64(ai, stack):
    async with worker(stack):
        made = await ai.images.generate(prompt="a red circle", model="small", n=2, size="64x64")
    assert [base64.b64decode(image.b64_json) for image in made.data] == [IMAGE, IMAGE]
    assert (made.size, made.output_format, made.background) == ("64x64", "png", "opaque")
    request = only_request(stack)
    assert (request.prompt, request.n, request.width, request.height) == ("a red circle", 2, 64, 64)


async def test_images_come_as_urls_if_asked_for(ai, stack, client):
    async with worker(stack):
        made = await ai.images.generate(prompt="a red circle", model="small", response_format="url")
    assert made.data[0].b64_json is None
    assert (await client.get(made.data[0].url)).content == IMAGE


async def test_fields_of_our_own_travel_beside(ai, stack):
    async with worker(stack):
        await ai.images.generate(
            prompt="a red circle",
            model="small",
            quality="high",
            extra_body={"seed": 7, "steps": 3, "negative_prompt": "blue", "metadata": {"a": "b"}},
        )
    request = only_request(stack)
    assert (request.seed, request.steps, request.negative_prompt) == (7, 3, "blue")
    assert (request.quality, dict(request.metadata)) == (Quality.EXACT, {"a": "b"})


async def test_a_name_of_theirs_stands_for_one_of_ours(tmp_path):
    stack = Stack(tmp_path, model_aliases={"gpt-image-2": "large", "dall-e-3": ""})
    async with stack.client() as client:
        await stack.publish()
        ai = client_of(client)
        async with worker(stack):
            await ai.images.generate(prompt="a red circle", model="gpt-image-2")
        assert only_request(stack).model == "large"
        async with worker(stack):
            await ai.images.generate(prompt="a red circle", model="dall-e-3")


async def test_images_are_encoded_as_asked(ai, stack):
    async with worker(stack):
        made = await ai.images.generate(
            prompt="x", model="small", output_format="webp", output_compression=80
        )
    assert made.output_format == "webp"
    output = only_request(stack).output
    assert (output.format, output.quality) == ("webp", 80)


@pytest.mark.parametrize(
    ("asked", "quality"),
    [
        ({"output_format": "webp"}, 100),
        ({"output_format": "webp", "output_compression": 0}, 1),
        ({"output_format": "webp", "extra_body": {"output_quality": 50}}, 50),
        ({"output_format": "png", "output_compression": 100}, None),
        ({}, None),
    ],
)
async def test_a_lossy_image_is_as_good_as_can_be_if_nothing_else_is_said(
    ai, stack, asked, quality
):
    async with worker(stack):
        await ai.images.generate(prompt="x", model="small", **asked)
    assert only_request(stack).output.quality == quality


async def test_a_stream_ends_with_every_image(ai, stack):
    async with worker(stack):
        events = await ai.images.generate(prompt="a red circle", model="small", n=2, stream=True)
        seen = [event async for event in events]
    assert [event.type for event in seen] == ["image_generation.completed"] * 2
    assert base64.b64decode(seen[0].b64_json) == IMAGE
    assert seen[0].created_at > 0
    assert ImageGenCompletedEvent.model_validate(seen[0].model_dump()).usage.total_tokens == 0


async def test_previews_come_as_partial_images_as_many_as_were_asked_for(ai, stack):
    picture = a_jpeg(24, 16)
    asked = {"prompt": "x", "model": "small", "stream": True, "partial_images": 2}
    async with worker_that_shows(stack, picture):
        events = await ai.images.generate(**asked)
        *partial, last = [event async for event in events]
    assert last.type == "image_generation.completed"
    assert [event.type for event in partial] == ["image_generation.partial_image"] * 2
    assert [event.partial_image_index for event in partial] == [0, 1]
    assert (partial[0].size, partial[0].output_format) == ("24x16", "jpeg")
    assert partial[0].b64_json == picture


@asynccontextmanager
async def worker_that_shows(stack, picture):
    """Make the one job that comes, with three previews on its way, for whoever watches."""

    async def work():
        while not any(record.previewed for record in stack.store.records.values()):
            await asyncio.sleep(0.01)
        (job_id,) = stack.store.records
        claim = stack.leases.claim(job_id)
        for step in (1, 2, 3):
            document = json.dumps({"step": step, "preview": picture})
            stack.leases.progress({job_id: Progress(step=step, steps=4)}, {job_id: document})
            await asyncio.sleep(0.05)
        deliver(stack, claim)

    task = asyncio.create_task(work())
    yield
    await task


def a_jpeg(*size):
    written = BytesIO()
    Image.new("RGB", size).save(written, "jpeg")
    return base64.b64encode(written.getvalue()).decode()


async def test_what_is_transparent_in_a_mask_is_made_anew(ai, stack):
    async with worker(stack):
        await ai.images.edit(
            image=("photo.png", a_photo(), "image/png"),
            mask=("mask.png", with_hole(), "image/png"),
            prompt="a blue star",
            model="small",
            extra_body={"seed": 7},
        )
    request = only_request(stack)
    assert request.edit.masked == pytest.approx(1 / 4)
    assert request.seed == 7


async def test_without_a_mask_the_images_own_holes_count(ai, stack):
    async with worker(stack):
        await ai.images.edit(
            image=[("photo.png", with_hole(), "image/png")], prompt="a blue star", model="small"
        )
    assert only_request(stack).edit.masked == pytest.approx(1 / 4)


async def test_an_edit_streams(ai, stack):
    async with worker(stack):
        events = await ai.images.edit(
            image=("photo.png", with_hole(), "image/png"), prompt="x", model="small", stream=True
        )
        [event] = [event async for event in events]
    assert event.type == "image_edit.completed"
    assert ImageEditCompletedEvent.model_validate(event.model_dump()).usage.total_tokens == 0


@pytest.mark.parametrize(
    ("images", "mask", "param"),
    [
        ([b"no picture"], None, "image"),
        ([a_photo()], None, "image"),
        ([a_photo()], a_photo(), "mask"),
        ([a_photo()] * 2, None, "image"),
    ],
)
async def test_an_edit_that_cannot_be_is_refused_by_its_part(ai, stack, images, mask, param):
    parts = [("photo.png", image, "image/png") for image in images]
    given = {} if mask is None else {"mask": ("mask.png", mask, "image/png")}
    with pytest.raises(openai.BadRequestError) as refused:
        await ai.images.edit(image=parts, prompt="x", model="small", **given)
    assert refused.value.param == param
    assert not stack.store.records


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"size": "huge"}, "size"),
        ({"size": "63x64"}, "width"),
        ({"n": 11}, "n"),
        ({"n": 5}, "n"),
        ({"background": "transparent"}, "background"),
        ({"output_format": "gif"}, "output_format"),
        ({"output_compression": 80}, "output_compression"),
        ({"extra_body": {"nonsense": 1}}, "nonsense"),
        ({"extra_body": {"template": "x"}}, "template"),
        ({"extra_body": {"steps": "three"}}, "steps"),
    ],
)
async def test_what_cannot_be_is_a_bad_request_that_names_it(ai, stack, asked, param):
    with pytest.raises(openai.BadRequestError) as refused:
        await ai.images.generate(**{"prompt": "x", "model": "small"} | asked)
    assert refused.value.param == param
    assert refused.value.message
    assert refused.value.request_id
    assert not stack.store.records


async def test_a_model_that_is_not_there_is_not_found(ai):
    with pytest.raises(openai.NotFoundError, match="small"):
        await ai.images.generate(prompt="x", model="gpt-image-2")


async def test_a_wrong_key_is_not_authenticated(tmp_path):
    async with Stack(tmp_path, api_keys={"right": "acme"}).client() as client:
        with pytest.raises(openai.AuthenticationError):
            await client_of(client).images.generate(prompt="x")


async def test_a_job_that_fails_says_why_and_is_not_to_be_sent_again(ai, stack):
    failure = Failure(type="out_of_memory", title="The device is full", detail="ask for less")
    async with worker(stack, Outcome(status=JobStatus.FAILED, failure=failure)):
        with pytest.raises(openai.InternalServerError, match="ask for less") as failed:
            await ai.images.generate(prompt="x", model="small")
    assert failed.value.code == "out_of_memory"
    assert failed.value.response.headers["x-should-retry"] == "false"


async def test_a_stream_says_why_there_is_no_image(ai, stack):
    failure = Failure(type="out_of_memory", title="The device is full")
    async with worker(stack, Outcome(status=JobStatus.FAILED, failure=failure)):
        events = await ai.images.generate(prompt="x", model="small", stream=True)
        with pytest.raises(openai.APIError, match="The device is full"):
            [event async for event in events]


@pytest.mark.parametrize("more", [{}, {"stream": True}])
async def test_a_client_that_leaves_takes_its_job_with_it(client, stack, more):
    asked = {"prompt": "x", "model": "small"} | more
    async with asyncio.timeout(60):
        await leave_early(client._transport.app, json.dumps(asked).encode(), stack)
        while not all(r.job.status is JobStatus.CANCELED for r in stack.store.records.values()):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("more", [{}, {"stream": True}])
async def test_a_client_that_left_finds_its_job_again_by_its_key(ai, client, stack, more):
    asked = {"prompt": "x", "model": "small"} | more
    async with asyncio.timeout(60):
        await leave_early(client._transport.app, json.dumps(asked).encode(), stack, key="k1")
        await asyncio.sleep(0.05)  # for as long as another job takes to be canceled
        async with worker(stack):
            made = await again(ai, asked)
    assert base64.b64decode(made) == IMAGE
    assert len(stack.store.records) == 1


async def test_a_key_finds_the_job_again_that_a_server_left_as_it_stopped(ai, stack):
    asked = {"prompt": "x", "model": "small"}
    stack.services.stopping.set()
    with pytest.raises(openai.InternalServerError, match="send it again") as refused:
        await again(ai, asked)
    assert int(refused.value.response.headers["retry-after"]) > 0
    await asyncio.sleep(0.05)
    stack.services.stopping.clear()  # as another process has it
    async with worker(stack):
        assert base64.b64decode(await again(ai, asked)) == IMAGE
    assert len(stack.store.records) == 1


async def again(ai, asked):
    """Send a request under the key of an earlier one; return its image."""
    made = await ai.images.generate(**asked, extra_headers={"Idempotency-Key": "k1"})
    if not asked.get("stream"):
        return made.data[0].b64_json
    (completed,) = [event async for event in made]
    return completed.b64_json


async def leave_early(app, body, stack, key=None):
    """Send a request and hang up once its job is there."""
    is_sent = False

    async def receive():
        nonlocal is_sent
        if not is_sent:
            is_sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        while not stack.store.records:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        return {"type": "http.disconnect"}

    async def send(message):
        pass

    headers = [(b"host", b"api.test"), (b"content-type", b"application/json")]
    if key is not None:
        headers.append((b"idempotency-key", key.encode()))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "server": ("api.test", 80),
        "path": "/v1/images/generations",
        "raw_path": b"/v1/images/generations",
        "query_string": b"",
        "root_path": "",
        "headers": headers,
    }
    await app(scope, receive, send)


async def test_forms_of_other_sites_are_not_taken(client, stack):
    files = {"image": ("photo.png", with_hole(), "image/png")}
    response = await client.post(
        "/v1/images/edits",
        data={"prompt": "x"},
        files=files,
        headers={"origin": "https://evil.example"},
    )
    assert response.status_code == 403
    assert not stack.store.records


def with_hole() -> bytes:
    image = Image.new("RGBA", (64, 64), "white")
    image.paste((0, 0, 0, 0), (0, 0, 32, 32))
    return saved(image)


@pytest.mark.parametrize("charset", ["punycode", "undefined", "idna", "utf-16", "no-such-charset"])
async def test_a_form_in_another_charset_than_utf8_is_refused(client, stack, charset):
    kind = {"content-type": f"multipart/form-data; boundary=b; charset={charset}"}
    body = b'--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nx-x\r\n--b--\r\n'
    response = await client.post("/v1/images/edits", content=body, headers=kind)
    assert response.status_code == 400
    assert "UTF-8" in response.json()["error"]["message"]


@pytest.mark.parametrize("charset", ["utf-8", "UTF-8", '"utf-8"'])
async def test_a_form_may_say_that_it_is_in_utf8(client, charset):
    kind = {"content-type": f"multipart/form-data; boundary=b; charset={charset}"}
    body = b'--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nx\r\n--b--\r\n'
    response = await client.post("/v1/images/edits", content=body, headers=kind)
    assert response.json()["error"]["param"] == "image"  # the next thing that is wrong with it


@pytest.mark.parametrize("origin", ["http://[", "null", "", "evil.example", "http://api.test.evil"])
async def test_an_origin_that_is_not_ours_is_none(client, stack, origin):
    files = {"image": ("photo.png", with_hole())}
    data = {"prompt": "x", "model": "small"}
    headers = {"origin": origin}
    response = await client.post("/v1/images/edits", data=data, files=files, headers=headers)
    assert response.status_code == 403
    assert not stack.store.records


@pytest.mark.parametrize(
    ("value", "reason"), [("[" * 100_000, "at most 20000"), ("[" * 9000, "loras")]
)
async def test_a_field_of_a_form_that_is_no_json_is_refused(client, stack, value, reason):
    files = {"image": ("photo.png", with_hole())}
    data = {"prompt": "x", "model": "small", "loras": value}
    response = await client.post("/v1/images/edits", data=data, files=files)
    assert response.status_code == 400, response.text
    assert reason in response.text
    assert not stack.store.records
