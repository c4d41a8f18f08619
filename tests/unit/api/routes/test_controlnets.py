"""ControlNets: checked against the models, kept per tenant, named by jobs, and deleted."""

import msgspec
import pytest
import torch
from safetensors.torch import save

from catalog.controlnet.joint_encoder import JointEncoder
from catalog.controlnet.manifest import Manifest
from catalog.controlnet.unet_encoder import UNetEncoder
from tests.unit.api.conftest import CONTROLNETS
from tests.unit.api.pictures import a_photo, data_url

IMAGE = data_url(a_photo(40, 24))
FILE = {"content-type": "application/octet-stream"}
COPIED = {
    "conv_in.weight": (8, 4, 3, 3),
    "down_blocks.0.resnets.0.conv2.weight": (8, 8, 3, 3),
    "mid_block.resnets.0.conv2.weight": (8, 8, 3, 3),
}
SMALL = UNetEncoder(shapes=COPIED, shared={"in_channels": 4}, halvings=1)
LARGE = UNetEncoder(
    shapes=COPIED | {"down_blocks.0.x": (3,)}, shared={"in_channels": 4}, halvings=1
)

BLOCK = {"norm1.linear.weight": (48, 8), "attn.to_q.weight": (8, 8)}
JOINT = JointEncoder(
    shapes={
        "pos_embed.proj.weight": (8, 4, 2, 2),
        "pos_embed.proj.bias": (8,),
        "context_embedder.bias": (8,),
        **{f"transformer_blocks.{at}.{name}": of for at in (0, 1) for name, of in BLOCK.items()},
        "transformer_blocks.2.norm1.linear.weight": (16, 8),  # has no caption to go on with
    },
    shared={"in_channels": 4},
)


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


def a_joint_file(blocks=1, **changes):
    numbers = range(blocks)
    shapes = {
        **{name: of for name, of in JOINT.shapes.items() if "transformer_blocks" not in name},
        **{f"transformer_blocks.{at}.{name}": of for at in numbers for name, of in BLOCK.items()},
        **{f"controlnet_blocks.{at}.weight": (8, 8) for at in numbers},
        **{f"controlnet_blocks.{at}.bias": (8,) for at in numbers},
        "pos_embed_input.proj.weight": (8, 4, 2, 2),
        "pos_embed_input.proj.bias": (8,),
        **changes,
    }
    return save({name: torch.zeros(of, dtype=torch.float16) for name, of in shapes.items()})


@pytest.fixture(autouse=True)
def encoders(stack):
    stack.encoders |= {"small": SMALL, "large": LARGE}


async def keep(client, data=None, headers=FILE, **params):
    sent = a_file() if data is None else data
    return await client.post("/v1/controlnets", content=sent, headers=headers, params=params)


async def submit(client, controlnet, **changes):
    asked = {"prompt": "x", "controls": [{"id": controlnet, "image": IMAGE}]}
    return await client.post("/v1/jobs", json=asked | changes)


async def test_files_are_judged_by_the_model_that_has_the_name_now(client, stack):
    files = (a_file(), a_joint_file())
    before = [(await keep(client, each, model="small")).status_code for each in files]
    stack.encoders["small"] = JOINT
    after = [(await keep(client, each, model="small")).status_code for each in files]
    assert (before, after) == ([201, 422], [422, 201])


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
    assert [each["id"] for each in listed["data"]] == [*CONTROLNETS, kept["id"]]
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


@pytest.mark.parametrize("blocks", [1, 3])
async def test_one_of_a_transformer_has_as_many_blocks_as_it_likes(client, stack, blocks):
    stack.encoders["small"] = JOINT
    response = await keep(client, a_joint_file(blocks), pooled=True)
    assert response.status_code == 201, response.text
    written = stack.objects.get(f"controlnets/{response.json()['id']}.json")
    assert msgspec.json.decode(written, type=Manifest).config == {
        "_class_name": "SD3ControlNetModel",
        "in_channels": 4,
        "num_layers": blocks,
        "force_zeros_for_pooled_projection": False,
    }


@pytest.mark.parametrize(
    ("data", "params", "reason"),
    [
        (a_joint_file(0), {}, "it has no transformer_blocks (small)"),
        (a_joint_file(4), {}, "transformer_blocks.3.attn.to_q.weight is 8 x 8, and missing"),
        (
            a_joint_file(**{"pos_embed_input.proj.weight": (8, 5, 2, 2)}),
            {},
            "pos_embed_input.proj.weight is 8 x 5 x 2 x 2, and 8 x 4 x 2 x 2 in",
        ),
        (a_joint_file(), {"order": "bgr"}, "of a transformer reads latents, not colours (small)"),
        (a_file(LARGE), {"pooled": True}, "is told of a prompt is not to be chosen (large)"),
    ],
)
async def test_what_fits_no_transformer_is_refused(client, stack, data, params, reason):
    stack.encoders["small"] = JOINT
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
