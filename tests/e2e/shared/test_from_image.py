"""Images that start from a picture, are made twice, and written otherwise: through the service."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from atelier_client import JobStatus
from cli.client.picture import named
from zoo.replaced import tasks
from zoo.scenes import draw

pytestmark = pytest.mark.e2e


@pytest.fixture
def picture(tmp_path):
    (task,) = tasks(1, 7)
    Image.fromarray(draw(task.scene)).save(tmp_path / "picture.png")
    return named(str(tmp_path / "picture.png")), draw(task.scene).astype(float), task.prompt


def made(client, http, body):
    job = client.jobs.get(client.jobs.create(**body).id, wait_s=60)
    assert job.status is JobStatus.SUCCEEDED, job.error
    [image] = job.images
    answer = http.get(image.url)
    return Image.open(BytesIO(client.images.fetch(image))), answer.headers


def test_the_less_of_the_schedule_is_run_the_more_is_left_of_the_picture(client, http, picture):
    url, before, prompt = picture
    body = {"prompt": prompt, "image": url, "seed": 3, "steps": 10}
    away = []
    for strength in (0.2, 0.9):
        image, headers = made(client, http, body | {"strength": strength})
        assert (image.format, headers["content-type"]) == ("PNG", "image/png")
        away.append(np.abs(np.asarray(image.convert("RGB"), float) - before).mean())
    assert away[0] < 0.8 * away[1]


def test_a_second_pass_makes_a_larger_image_written_as_asked(client, http, picture):
    _, _, prompt = picture
    body = {"prompt": prompt, "seed": 3, "steps": 6, "output_format": "webp", "output_quality": 80}
    image, headers = made(client, http, body | {"second_pass": {"scale": 2.0, "strength": 0.5}})
    assert (image.format, headers["content-type"]) == ("WEBP", "image/webp")
    assert image.size == (128, 128)
    small, _ = made(client, http, body)
    assert small.size == (64, 64)
    down = np.asarray(image.convert("RGB").resize((64, 64), Image.Resampling.LANCZOS), float)
    assert np.abs(down - np.asarray(small.convert("RGB"), float)).mean() < 30
