"""OpenAI's own client, unmodified, against the whole service."""

import base64
from io import BytesIO

import numpy as np
import openai
import pytest
from PIL import Image

pytestmark = pytest.mark.e2e


@pytest.fixture
def ai(service):
    with openai.OpenAI(api_key="-", base_url=f"{service.addresses.api}/v1") as client:
        yield client


def opened(text):
    return Image.open(BytesIO(base64.b64decode(text)))


def saved(image):
    written = BytesIO()
    image.save(written, "png")
    return written.getvalue()


def test_a_model_that_is_listed_makes_an_image(ai):
    model = ai.models.list().data[0].id
    made = ai.images.generate(
        model=model, prompt="a red circle", size="64x64", extra_body={"steps": 2, "seed": 1}
    )
    assert opened(made.data[0].b64_json).size == (64, 64)
    assert made.data[0].seed == 1


def test_an_edit_streams_what_it_made(ai):
    photo = Image.new("RGBA", (64, 64), "white")
    photo.paste((0, 0, 0, 0), (8, 8, 40, 40))
    stream = ai.images.edit(
        image=("photo.png", saved(photo), "image/png"),
        prompt="a blue star",
        stream=True,
        extra_body={"steps": 2},
    )
    *_, last = stream
    assert last.type == "image_edit.completed"
    made = opened(last.b64_json).convert("RGB")
    assert made.size == (64, 64)
    assert min(made.getpixel((60, 60))) > 200  # kept, as far as an autoencoder keeps it


def test_partial_images_come_before_the_final_one(ai):
    stream = ai.images.generate(
        prompt="a red circle",
        size="64x64",
        quality="high",
        stream=True,
        partial_images=2,
        extra_body={"steps": 200, "seed": 1},  # it runs when it is first looked at
    )
    *partial, last = stream
    assert last.type == "image_generation.completed"
    assert partial
    for index, event in enumerate(partial):
        assert (event.type, event.partial_image_index) == ("image_generation.partial_image", index)
        picture = opened(event.b64_json)
        assert (picture.format, "{}x{}".format(*picture.size)) == ("JPEG", event.size)
    near, made = (
        np.asarray(opened(event.b64_json).convert("RGB"), float) for event in (partial[-1], last)
    )
    assert near.shape == made.shape
    assert np.corrcoef(near.ravel(), made.ravel())[0, 1] > 0.2  # how near it is hangs on its step


def test_what_cannot_be_made_is_a_bad_request(ai):
    with pytest.raises(openai.BadRequestError, match="multiple of"):
        ai.images.generate(prompt="a red circle", size="63x64")
