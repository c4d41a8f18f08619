"""An edit through the whole service: what the mask keeps is kept, the rest is made anew."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from atelier_client import JobStatus
from cli.client.picture import named
from core.placement import is_own
from zoo.replaced import tasks
from zoo.scenes import draw

pytestmark = pytest.mark.e2e


def saved(path, pixels):
    Image.fromarray(pixels).save(path)
    return named(str(path))


def made(client, job):
    job = client.jobs.get(job.id, wait_s=60)
    assert job.status is JobStatus.SUCCEEDED, job.error
    data = client.images.fetch(job.images[0])
    return np.asarray(Image.open(BytesIO(data)).convert("RGB"), np.float64)


@pytest.mark.parametrize("quality", ["auto", "exact"])
def test_an_edit_changes_what_its_mask_covers_and_little_else(client, http, tmp_path, quality):
    (task,) = tasks(1, 7)
    before = draw(task.scene).astype(float)
    body = {
        "task": "edit",
        "prompt": task.prompt,
        "template": saved(tmp_path / "template.png", draw(task.scene)),
        "mask": saved(tmp_path / "mask.png", task.mask),
        "quality": quality,
        "steps": 12,
    }
    first, again = (made(client, client.jobs.create(**body)) for _ in range(2))
    for after in (first, again):
        change = np.abs(after - before).mean(axis=2)
        assert change[task.mask].mean() > 20
        # The decoder looks at the whole latent, so what is kept moves a little.
        assert change[~task.mask].mean() < change[task.mask].mean() / 3
    assert np.abs(first - again).mean() < (1e-9 if quality == "exact" else 10)
    third = client.jobs.create(**body).id
    placement = http.get(f"/v1/jobs/{third}").json()["placement"]
    client.jobs.cancel(third)
    assert is_own(placement["queue"]) == (quality == "auto")  # whoever has the template makes it


def test_a_mask_of_another_size_is_refused_and_nothing_is_queued(http, tmp_path):
    (task,) = tasks(1, 7)
    before = [job["id"] for job in http.get("/v1/jobs").json()["data"]]
    body = {
        "task": "edit",
        "prompt": task.prompt,
        "template": saved(tmp_path / "template.png", draw(task.scene)),
        "mask": saved(tmp_path / "mask.png", np.ones((32, 32), bool)),
    }
    answer = http.post("/v1/jobs", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "mask"
    assert [job["id"] for job in http.get("/v1/jobs").json()["data"]] == before
