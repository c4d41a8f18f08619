"""Replicate's own client, unmodified, against the whole service."""

import json
from io import BytesIO

import httpx
import pytest
import replicate
from PIL import Image
from replicate.webhook import Webhooks

from tests.e2e.shared.hook import receiving
from tests.e2e.waiting import until
from tests.unit.api.pictures import a_mask, a_photo

pytestmark = pytest.mark.e2e


@pytest.fixture
def theirs(service):
    client = replicate.Client(api_token="-", base_url=service.addresses.api)
    yield client
    client._client.close()


@pytest.fixture
def model(http):
    return f"atelier/{http.get('/v1/models').json()['data'][0]['id']}"


def test_a_run_ends_with_an_image(theirs, model):
    (url,) = theirs.run(
        model, {"prompt": "a red circle", "num_inference_steps": 2, "width": 64, "height": 64}
    )
    assert Image.open(BytesIO(httpx.get(str(url)).content)).size == (64, 64)


def test_uploaded_files_are_edited(theirs, model):
    asked = {"prompt": "a star", "image": BytesIO(a_photo()), "mask": BytesIO(a_mask()), "steps": 2}
    (url,) = theirs.run(model, asked)
    assert Image.open(BytesIO(httpx.get(str(url)).content)).size == (64, 64)


def test_a_webhook_brings_the_prediction_signed(theirs, model):
    with receiving() as receiver:
        made = theirs.models.predictions.create(
            model,
            input={"prompt": "a red circle", "steps": 2},
            webhook=receiver.url,
            webhook_events_filter=["completed"],
        )
        until(lambda: receiver.hooks)
    hook = receiver.hooks[0]
    Webhooks.validate(
        headers=hook.headers, body=hook.body.decode(), secret=theirs.webhooks.default.secret()
    )
    told = json.loads(hook.body)
    assert (told["id"], told["status"], len(told["output"])) == (made.id, "succeeded", 1)
