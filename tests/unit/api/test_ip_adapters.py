"""IP-Adapters from submit to record: what is refused leaves nothing, what is accepted all."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.unit.api.conftest import Stack
from tests.unit.api.pictures import a_mask, a_photo, data_url, opened

IMAGE = data_url(a_photo(40, 24))
USE = {"id": "plain", "image": IMAGE, "scale": 0.5}
SHOWN = {"prompt": "a red star", "ip_adapter": USE}


@pytest.fixture
def stack(tmp_path):
    folder = tmp_path / "ip-adapters" / "plain"
    (folder / "image_encoder").mkdir(parents=True)
    (folder / "image_encoder" / "config.json").write_text("{}")
    (folder / "atelier.json").write_text(json.dumps({"name": "plain", "models": ["small"]}))
    names = ("image_proj.proj.weight", "ip_adapter.1.to_k_ip.weight")
    save_file({name: np.zeros(1, np.float32) for name in names}, folder / "a.safetensors")
    return Stack(tmp_path, ip_adapters_dir=folder.parent)


async def refused(client, stack, **changes):
    before = stack.stored(), list(stack.store.records)
    response = await client.post("/v1/jobs", json=SHOWN | changes)
    assert response.status_code == 422, response.text
    assert (stack.stored(), list(stack.store.records)) == before
    return {error["field"]: error["detail"] for error in response.json()["errors"]}


async def test_a_job_is_stored_with_its_picture_and_goes_to_a_model_that_it_is_for(client, stack):
    job = (await client.post("/v1/jobs", json=SHOWN)).json()
    request = stack.store.records[job["id"]].job.request
    use = request.ip_adapter
    assert (use.id, use.scale, use.models, request.model) == ("plain", 0.5, ("small",), "small")
    assert use.image == f"default/{job['id']}/inputs/shown.png"
    assert opened(stack.objects.get(use.image)).size == (40, 24)
    assert request.inputs == {"picture of the IP-Adapter": use.image}
    shown = (await client.get(f"/v1/jobs/{job['id']}")).json()["ip_adapter"]
    assert (shown["id"], shown["scale"]) == ("plain", 0.5)
    assert opened((await client.get(shown["image"])).content).size == (40, 24)


async def test_an_edit_is_stored_with_its_picture(client, stack):
    pictures = {"template": data_url(a_photo(64, 64)), "mask": data_url(a_mask(64, 64))}
    response = await client.post("/v1/jobs", json=SHOWN | {"task": "edit"} | pictures)
    request = stack.store.records[response.json()["id"]].job.request
    assert opened(stack.objects.get(request.ip_adapter.image)).size == (40, 24)
    assert request.edit is not None


async def test_they_are_listed(client):
    [listed] = (await client.get("/v1/ip-adapters")).json()["data"]
    assert listed == {"id": "plain", "object": "ip_adapter", "models": ["small"]}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"ip_adapter": USE | {"id": "other"}}, "ip_adapter.id"),
        ({"ip_adapter": USE | {"scale": 1.5}}, "ip_adapter.scale"),
        ({"ip_adapter": USE | {"image": "data:image/png;base64,AAAA"}}, "ip_adapter.image"),
        ({"ip_adapter": {"id": "plain"}}, "ip_adapter.image"),
        ({"model": "large"}, "ip_adapter.id"),
        ({"second_pass": {"scale": 2}}, "second_pass"),
    ],
)
async def test_what_cannot_be_is_refused_by_its_field(client, stack, changes, field):
    assert field in await refused(client, stack, **changes)
