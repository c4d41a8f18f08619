"""Replicate's own client, unmodified, against the api over in-memory fakes."""

import asyncio
import time
from io import BytesIO

import httpx
import pytest
import replicate
from replicate.exceptions import ModelError, ReplicateError

from api.facades import waiting
from api.facades.replicate import predictions
from api.facades.replicate.schemas import PredictionCreate
from api.facades.replicate.translate import to_job
from core.errors import StoreUnavailable
from core.job import Failure, JobStatus, Progress
from storage.jobs.leases import Outcome
from tasks.jobs.prediction import version_of
from tests.unit.api.conftest import Stack
from tests.unit.api.facades.worker import IMAGE, only_request, worker
from tests.unit.api.pictures import a_mask, a_photo, data_url

MODEL = "atelier/small"


@pytest.fixture
async def theirs(client, monkeypatch):
    monkeypatch.setenv("REPLICATE_POLL_INTERVAL", "0.01")
    return client_of(client)


def client_of(http):
    """Speak to the app that another client speaks to."""
    transport = httpx.ASGITransport(http._transport.app, raise_app_exceptions=False)
    return replicate.Client(api_token="k", base_url="http://api.test", transport=transport)


@pytest.mark.parametrize("reference", [MODEL, f"{MODEL}:{version_of('small')}"])
async def test_a_run_ends_with_urls_of_the_images(theirs, stack, client, reference):
    async with worker(stack):
        output = await theirs.async_run(reference, {"prompt": "a red circle", "num_outputs": 2})
    assert [(await client.get(str(url))).content for url in output] == [IMAGE, IMAGE]
    assert only_request(stack).n == 2


async def test_what_models_there_call_it_is_understood(theirs, stack):
    asked = {
        "prompt": "a red circle",
        "negative_prompt": "blue",
        "num_inference_steps": 7,
        "guidance_scale": 3.0,
        "seed": 42,
        "width": 64,
        "height": 80,
        "output_format": "jpg",
        "output_quality": 80,
    }
    made = await theirs.predictions.async_create(version=version_of("small"), input=asked)
    request = only_request(stack)
    assert (request.steps, request.guidance, request.seed) == (7, 3.0, 42)
    assert (request.width, request.height, request.negative_prompt) == (64, 80, "blue")
    assert request.output.format == "jpeg"
    assert made.status == "starting"
    assert made.input["num_inference_steps"] == 7
    assert made.model == MODEL


async def test_an_edit_is_an_image_and_a_mask(theirs, stack):
    asked = {
        "prompt": "a star",
        "image": data_url(a_photo()),
        "mask": data_url(a_mask()),
        "prompt_strength": 0.5,
    }
    await theirs.predictions.async_create(version="small", input=asked)
    assert only_request(stack).edit.strength == 0.5


async def test_a_file_is_uploaded_and_named_by_its_url(theirs, stack):
    photo, mask = BytesIO(a_photo()), BytesIO(a_mask())
    await theirs.predictions.async_create(
        version="small", input={"prompt": "a star", "image": photo, "mask": mask}
    )
    assert only_request(stack).edit is not None


async def test_a_file_of_a_control_is_named_by_its_url_too(theirs, stack):
    controls = [{"id": "edges", "image": BytesIO(a_photo())}]
    asked = {"prompt": "a star", "controls": controls}
    await theirs.predictions.async_create(version="small", input=asked)
    [control] = only_request(stack).controls
    assert control.controlnet == "edges"


def test_a_file_of_an_ip_adapter_is_named_by_its_url_too():
    shown = {"id": "plain", "image": f"http://api.test/v1/files/{'a' * 32}"}
    body = PredictionCreate(input={"prompt": "x", "ip_adapter": shown})
    assert to_job(body, "small", "http://api.test").ip_adapter.image == "a" * 32


async def test_lists_within_lists_are_refused_however_deep(client, stack):
    deep = "[" * 150 + "]" * 150
    body = f'{{"version": "small", "input": {{"prompt": "x", "controls": {deep}}}}}'
    kind = {"content-type": "application/json"}
    response = await client.post("/v1/predictions", content=body, headers=kind)
    assert response.status_code == 422
    assert not stack.store.records


@pytest.mark.parametrize(
    ("told", "quality"),
    [
        ({"output_quality": 80}, None),
        ({"output_format": "png", "output_quality": 80}, None),
        ({"output_format": "jpg", "output_quality": 0}, 1),
        ({"output_format": "webp", "output_quality": 100}, 100),
    ],
)
async def test_a_quality_is_one_that_its_format_has(theirs, stack, told, quality):
    await theirs.predictions.async_create(version="small", input={"prompt": "x"} | told)
    assert only_request(stack).output.quality == quality


async def test_a_wait_that_is_over_says_starting_so_that_they_poll(theirs, stack):
    async def start():
        while not stack.store.records:
            await asyncio.sleep(0.01)
        (job_id,) = stack.store.records
        stack.leases.claim(job_id)

    starting = asyncio.create_task(start())
    made = await theirs.predictions.async_create(version="small", input={"prompt": "x"}, wait=1)
    await starting
    assert made.status == "starting"
    assert (await theirs.predictions.async_get(made.id)).status == "processing"


async def test_a_wait_counts_from_the_request_however_long_its_intake_takes(
    theirs, stack, monkeypatch
):
    submit, waits = stack.services.submitter.submit, []

    async def slowly(*args, **kwargs):
        await asyncio.sleep(0.4)
        return await submit(*args, **kwargs)

    async def until_end(services, request, job, wait_s):
        waits.append(wait_s)
        return await waiting.until_end(services, request, job, wait_s)

    stack.services.submitter.submit = slowly
    monkeypatch.setattr(predictions, "until_end", until_end)
    await theirs.predictions.async_create(version="small", input={"prompt": "x"}, wait=1)
    assert len(waits) == 1 and waits[0] < 1 - predictions.ANSWER_S - 0.3


async def test_a_store_that_goes_away_makes_no_wait_longer(theirs, stack, monkeypatch):
    async def away(*_):
        raise StoreUnavailable("refused")

    monkeypatch.setattr(waiting, "RETRY_S", 60.0)
    stack.jobs.get = away
    asked_at = time.monotonic()
    made = await theirs.predictions.async_create(version="small", input={"prompt": "x"}, wait=1)
    assert made.status == "starting"
    assert time.monotonic() - asked_at < 30


async def test_progress_is_read_from_the_logs(theirs, stack):
    made = await theirs.predictions.async_create(version="small", input={"prompt": "x"})
    claim = stack.leases.claim(made.id)
    stack.leases.progress({made.id: Progress(step=3, steps=30)})
    await made.async_reload()
    assert (made.progress.current, made.progress.total) == (3, 30)
    assert made.progress.percentage == pytest.approx(0.1)
    assert claim.fence


async def test_a_stream_has_every_image_and_ends(theirs, stack):
    made = await theirs.predictions.async_create(version="small", input={"prompt": "x"})
    async with worker(stack):
        seen = [event async for event in made.async_stream()]
    assert [event.event.value for event in seen if event.event.value != "logs"] == [
        "output",
        "done",
    ]


async def test_a_prediction_is_canceled_and_listed(theirs):
    made = await theirs.predictions.async_create(version="small", input={"prompt": "x"})
    await theirs.predictions.async_cancel(made.id)
    page = await theirs.predictions.async_list()
    assert [(each.id, each.status) for each in page.results] == [(made.id, "canceled")]


async def test_pages_lead_to_the_next(theirs):
    ids = [
        (await theirs.predictions.async_create(version="small", input={"prompt": "x"})).id
        for _ in range(101)
    ]
    first = await theirs.predictions.async_list()
    second = await theirs.predictions.async_list(first.next)
    assert {each.id for page in (first, second) for each in page.results} == set(ids)


async def test_a_job_that_fails_is_a_model_error(theirs, stack):
    failure = Failure(type="out_of_memory", title="The device is full", detail="ask for less")
    async with worker(stack, Outcome(status=JobStatus.FAILED, failure=failure)):
        with pytest.raises(ModelError, match="ask for less"):
            await theirs.async_run(MODEL, {"prompt": "x"})


async def test_a_model_has_one_version(theirs):
    model = await theirs.models.async_get(MODEL)
    assert model.latest_version.id == version_of("small")
    versions = await model.versions.async_list()
    assert [each.id for each in versions.results] == [version_of("small")]


@pytest.mark.parametrize(
    ("version", "given", "status", "names"),
    [
        ("nobody/nothing", {"prompt": "x"}, 404, "model"),
        (f"{MODEL}:{version_of('large')}", {"prompt": "x"}, 404, "version"),
        (MODEL, {}, 422, "prompt"),
        (MODEL, {"prompt": "x", "nonsense": 1}, 422, "nonsense"),
        (MODEL, {"prompt": "x", "task": "edit"}, 422, "task"),
        (MODEL, {"prompt": "x", "mask": data_url(a_mask())}, 422, "template"),
    ],
)
async def test_what_cannot_be_is_refused(theirs, stack, client, version, given, status, names):
    with pytest.raises(ReplicateError) as refused:
        await theirs.predictions.async_create(version=version, input=given)
    assert refused.value.status == status
    response = await client.post("/v1/predictions", json={"version": version, "input": given})
    assert names in response.text
    assert not stack.store.records


async def test_webhooks_are_asked_for_by_their_names(theirs, stack):
    await theirs.predictions.async_create(
        version="small",
        input={"prompt": "x"},
        webhook="https://example.com/hook",
        webhook_events_filter=["start", "completed"],
    )
    webhook = only_request(stack).webhook
    assert webhook.events == ("started", "completed")
    assert webhook.format == "prediction"


async def test_the_secret_of_webhooks_is_the_tenants_own_where_there_are_keys(tmp_path):
    keyless = Stack(tmp_path, webhook_secret="whsec_AAAA")
    async with keyless.client() as client:
        assert (await client_of(client).webhooks.default.async_secret()).key == "whsec_AAAA"
    keyed = Stack(tmp_path, webhook_secret="whsec_AAAA", api_keys={"k": "a"})
    async with keyed.client() as client:
        told = [(await client_of(client).webhooks.default.async_secret()).key for _ in range(2)]
    assert told[0] == told[1] != "whsec_AAAA" and told[0].startswith("whsec_")
