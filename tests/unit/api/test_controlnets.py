"""ControlNets: checked against the models, kept per tenant, named by jobs, and deleted."""

import msgspec
import pytest
import torch
from safetensors.torch import save

from tests.unit.api.pictures import a_photo, data_url
from worker.control.manifest import Encoder, Manifest

IMAGE = data_url(a_photo(40, 24))
FILE = {"content-type": "application/octet-stream"}
COPIED = {
    "conv_in.weight": (8, 4, 3, 3),
    "down_blocks.0.resnets.0.conv2.weight": (8, 8, 3, 3),
    "mid_block.resnets.0.conv2.weight": (8, 8, 3, 3),
}
SMALL = Encoder(shapes=COPIED, config={"in_channels": 4}, halvings=1)
LARGE = Encoder(shapes=COPIED | {"down_blocks.0.x": (3,)}, config={"in_channels": 4}, halvings=1)


def convolution(name, out, into, side):
    return {f"{name}.weight": (out, into, side, side), f"{name}.bias": (out,)}


ADDED = {
    **convolution("controlnet_cond_embedding.conv_in", 2, 3, 3),
    **convolution("controlnet_cond_embedding.blocks.0", 2, 2, 3),
    **convolution("controlnet_cond_embedding.blocks.1", 4, 2, 3),
    **convolution("controlnet_cond_embedding.conv_out", 8, 4, 3),
    **convolution("controlnet_down_blocks.0", 8, 8, 1),
    **convolution("controlnet_down_blocks.1", 8, 8, 1),
    **convolution("controlnet_mid_block", 8, 8, 1),
}


def a_file(encoder=SMALL, without="", dtype=torch.float16, **changes):
    shapes = {**encoder.shapes, **ADDED, **changes}
    return save(
        {name: torch.zeros(s, dtype=dtype) for name, s in shapes.items() if name != without}
    )


@pytest.fixture(autouse=True)
def encoders(stack):
    stack.encoders |= {"small": SMALL, "large": LARGE}


async def keep(client, data=None, headers=FILE, **params):
    sent = a_file() if data is None else data
    return await client.post("/v1/controlnets", content=sent, headers=headers, params=params)


async def submit(client, controlnet, **changes):
    asked = {"prompt": "x", "controls": [{"id": controlnet, "image": IMAGE}]}
    return await client.post("/v1/jobs", json=asked | changes)


async def test_one_is_kept_shown_and_listed_after_those_of_the_service(client, stack):
    response = await keep(client, condition="outlines", order="bgr")
    kept = response.json()
    assert response.status_code == 201, response.text
    assert response.headers["location"] == f"http://api.test/v1/controlnets/{kept['id']}"
    assert (kept["models"], kept["condition"], kept["bytes"]) == (
        ["small"], "outlines", len(a_file())
    )  # fmt: skip
    assert stack.objects.get(f"controlnets/{kept['id']}.safetensors") == a_file()
    manifest = msgspec.json.decode(
        stack.objects.get(f"controlnets/{kept['id']}.json"), type=Manifest
    )
    assert manifest.sha256 == kept["sha256"]
    assert manifest.config == {
        "_class_name": "ControlNetModel",
        "in_channels": 4,
        "conditioning_channels": 3,
        "conditioning_embedding_out_channels": [2, 4],
        "controlnet_conditioning_channel_order": "bgr",
    }
    assert (await client.get(f"/v1/controlnets/{kept['id']}")).json() == kept
    listed = (await client.get("/v1/controlnets")).json()
    assert [each["id"] for each in listed["data"]] == ["edges", "depth", kept["id"]]
    assert (await client.get("/v1/controlnets/edges")).json()["condition"] == "outlines"


@pytest.mark.parametrize(
    ("data", "params", "reason"),
    [
        (b"", {}, "not a safetensors file"),
        (b"PK\3\4 a pickle", {}, "not a safetensors file"),
        (a_file(without="conv_in.weight"), {}, "conv_in.weight is missing, and 8 x 4 x 3 x 3"),
        (a_file(other=(3,)), {}, "other is 3, and missing in a ControlNet of this model (small)"),
        (a_file(LARGE), {"model": "small"}, "down_blocks.0.x is 3, and missing"),
        (a_file(without="controlnet_mid_block.bias"), {}, "controlnet_mid_block.bias is missing"),
        (a_file(without="controlnet_cond_embedding.blocks.1.weight"), {}, "halve its condition"),
        (a_file(dtype=torch.int8), {}, "numbers that are none of"),
        (a_file(), {"model": "nobody"}, "must be one of small, large"),
    ],
)
async def test_what_steers_no_model_is_refused_and_not_kept(client, stack, data, params, reason):
    response = await keep(client, data, **params)
    assert response.status_code == 422
    assert reason in response.text
    assert stack.is_untouched() and not stack.store.uploads


async def test_a_page_of_another_site_cannot_store_one(client):
    assert (await keep(client, headers={"content-type": "text/plain"})).status_code == 415


async def test_a_model_without_an_encoder_takes_none(client, stack):
    stack.encoders |= {"small": None, "large": None}
    assert "are served from folders alone" in (await keep(client)).text


async def test_a_job_goes_to_a_model_that_it_steers(client, stack):
    kept = (await keep(client, a_file(LARGE))).json()["id"]
    response = await submit(client, kept)
    assert response.status_code == 202, response.text
    [[query]] = stack.scheduler.calls
    assert query.models == ("large",)
    job = await stack.jobs.get(response.json()["id"], "default")
    assert job.request.controls[0].controlnet == kept
    refused = await submit(client, kept, model="small")
    assert refused.json()["errors"] == [
        {"field": "controls.0.id", "detail": "is for large, not for small"}
    ]


async def test_one_that_is_deleted_stays_for_the_jobs_that_were_accepted(client, stack):
    kept = (await keep(client)).json()["id"]
    assert (await submit(client, kept)).status_code == 202
    gone = await client.delete(f"/v1/controlnets/{kept}")
    assert gone.json() == {"id": kept, "object": "controlnet", "deleted": True}
    refused = await submit(client, kept)
    assert refused.json()["errors"][0]["detail"] == "is the id of no ControlNet here"
    assert (await client.delete(f"/v1/controlnets/{kept}")).status_code == 404
    assert stack.objects.get(f"controlnets/{kept}.safetensors") == a_file()


async def test_those_of_the_service_are_not_a_tenants_to_delete(client):
    assert (await client.delete("/v1/controlnets/edges")).status_code == 409


async def test_tenants_see_and_use_their_own_alone(tmp_path):
    from tests.unit.api.conftest import Stack

    stack = Stack(tmp_path, api_keys={"a" * 32: "ann", "b" * 32: "ben"})
    stack.encoders |= {"small": SMALL}
    ann, ben = ({"authorization": f"Bearer {key * 32}"} for key in "ab")
    async with stack.client(**ann) as client:
        kept = (await keep(client)).json()["id"]
        assert (await client.get(f"/v1/controlnets/{kept}", headers=ben)).status_code == 404
        asked = {"prompt": "x", "controls": [{"id": kept, "image": IMAGE}]}
        assert (await client.post("/v1/jobs", json=asked, headers=ben)).status_code == 422
        assert (await submit(client, kept)).status_code == 202
