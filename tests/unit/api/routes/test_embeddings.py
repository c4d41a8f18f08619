"""Learned embeddings: checked against the models, kept per tenant, named by jobs, and deleted."""

import msgspec
import pytest
import torch
from safetensors.torch import save

from api.intake.weights import Spool
from api.intake.words.embeddings import EmbeddingIntake
from core.errors import InvalidRequest
from core.job import JobRequest
from core.model import Model
from tests.unit.api.conftest import Stack, Words

SHAPES = {
    "text_encoder.encoder.layers.0.self_attn.q_proj": (8, 8),
    "text_encoder_2.encoder.layers.0.self_attn.q_proj": (12, 12),
}
FILE = {"content-type": "application/octet-stream"}


def a_file(vectors=2, widths=(8, 12)):
    names = ("clip_l", "clip_g")
    return save({n: torch.ones(vectors, w) for n, w in zip(names, widths, strict=True)})


ENDLESS = save({"clip_l": torch.full((1, 8), float("inf")), "clip_g": torch.ones(1, 12)})


@pytest.fixture(autouse=True)
def shapes(stack):
    stack.shapes |= dict.fromkeys(("small", "large"), SHAPES)


async def keep(client, data=None, **params):
    return await client.post(
        "/v1/embeddings",
        content=a_file() if data is None else data,
        headers=FILE,
        params={"token": "<cat>"} | params,
    )


async def kept_id(client, data=None, **params):
    response = await keep(client, data, **params)
    assert response.status_code == 201, response.text
    return response.json()["id"]


async def submit(client, *ids, prompt="a <cat>", **changes):
    body = {"prompt": prompt, "embeddings": [{"id": each} for each in ids]} | changes
    return await client.post("/v1/jobs", json=body)


async def test_an_embedding_is_kept_shown_listed_and_deleted(client, stack):
    response = await keep(client)
    kept = response.json()
    assert response.status_code == 201
    assert response.headers["location"] == f"http://api.test/v1/embeddings/{kept['id']}"
    assert (kept["models"], kept["token"], kept["vectors"]) == (["small", "large"], "<cat>", 2)
    assert stack.objects.get(f"embeddings/default/{kept['id']}.safetensors") == a_file()
    assert (await client.get(f"/v1/embeddings/{kept['id']}")).json() == kept
    assert (await client.get("/v1/embeddings")).json()["data"] == [kept]
    assert (await client.delete(f"/v1/embeddings/{kept['id']}")).json()["deleted"]
    assert (await client.get(f"/v1/embeddings/{kept['id']}")).status_code == 404


async def test_a_file_that_names_its_word_needs_no_other(client, stack):
    stack.shapes |= {"small": {name: SHAPES[name] for name in list(SHAPES)[:1]}}
    data = save({"<dog>": torch.ones(8)})
    response = await client.post("/v1/embeddings", content=data, headers=FILE)
    assert (response.json()["token"], response.json()["models"]) == ("<dog>", ["small"])


@pytest.mark.parametrize(
    ("data", "params", "field", "reason"),
    [
        (b"PK\3\4 a pickle", {}, "body", "is a pickle: load it and save"),
        (a_file(widths=(8, 8)), {}, "body", "vectors of 8 and 8 numbers"),
        (a_file(vectors=65), {}, "body", "65 vectors"),
        (save({"x": torch.ones(8)}), {}, "body", "vectors of 8 numbers"),
        (ENDLESS, {}, "body", "finite"),
        (None, {"token": "a cat"}, "token", "no spaces"),
        (None, {"token": "(cat)"}, "token", "brackets"),
        (None, {"token": "known"}, "body", "a token that it has already"),
        (None, {"model": "nobody"}, "model", "must be one of small, large"),
    ],
)
async def test_what_fits_no_model_is_refused_and_not_kept(
    client, stack, data, params, field, reason
):
    response = await keep(client, data, **params)
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == field and reason in response.text
    assert not stack.store.uploads


async def test_a_file_that_does_not_name_its_word_needs_one(client):
    response = await client.post("/v1/embeddings", content=a_file(), headers=FILE)
    assert response.status_code == 422 and "does not name its word" in response.text


async def test_a_job_carries_what_its_worker_needs(client, stack):
    embedding = await kept_id(client)
    response = await submit(client, embedding, model="small")
    assert response.status_code == 202, response.text
    record = stack.store.records[response.json()["id"]]
    [used] = record.job.request.embeddings
    assert (used.id, used.token, used.num_vectors) == (embedding, "<cat>", 2)
    assert used.key == f"embeddings/default/{embedding}.safetensors"
    assert response.json()["embeddings"] == [{"id": embedding, "token": "<cat>"}]
    request = record.job.request
    assert msgspec.convert(msgspec.to_builtins(request), JobRequest) == request


async def test_what_a_job_names_must_be_kept_said_and_told_apart(client):
    cat, cats = await kept_id(client), await kept_id(client, token="<cat>s")
    for ids, prompt, at, reason in (
        (["0" * 32], "a <cat>", 0, "no embedding kept here"),
        (["nothing"], "a <cat>", 0, "no embedding kept here"),
        ([cat], "a cat", 0, "which no prompt says"),
        ([cat, cats], "a <cat>s", 1, "a word that another has in it"),
        ([cat, cat], "a <cat>", 1, "a word that another has in it"),
    ):
        response = await submit(client, *ids, prompt=prompt)
        assert response.status_code == 422, reason
        [error] = response.json()["errors"]
        assert error["field"] == f"embeddings.{at}.id" and reason in error["detail"]
    assert (await submit(client, cat, prompt="a", negative_prompt="<CAT>")).status_code == 202


async def test_a_word_counts_as_many_tokens_as_vectors(client):
    """Model `small` reads 10 words."""
    long = await kept_id(client, a_file(vectors=9))
    assert (await submit(client, long, prompt="a <cat>", model="small")).status_code == 202
    refused = await submit(client, long, prompt="a <cat> b", model="small")
    assert refused.status_code == 422 and "has 11 tokens" in refused.text
    chunked = {"prompt": "a <cat> b", "model": "small", "prompt_syntax": "weighted"}
    assert (await submit(client, long, **chunked)).status_code == 202


async def test_nobody_names_another_tenant_s(tmp_path):
    stack = Stack(tmp_path, api_keys={"k": "a", "l": "b"})
    stack.shapes |= dict.fromkeys(("small", "large"), SHAPES)
    async with stack.client() as client:
        one, other = ({"authorization": f"Bearer {key}"} for key in "kl")
        response = await client.post(
            "/v1/embeddings", content=a_file(), headers=FILE | one, params={"token": "<cat>"}
        )
        body = {"prompt": "a <cat>", "embeddings": [{"id": response.json()["id"]}]}
        assert (await client.post("/v1/jobs", json=body, headers=one)).status_code == 202
        refused = await client.post("/v1/jobs", json=body, headers=other)
        assert refused.status_code == 422 and "no embedding kept here" in refused.text


@pytest.mark.parametrize("family", ["sd3", "flux"])
async def test_models_of_other_families_take_none(stack, family):
    async def body():
        yield a_file()

    intake = EmbeddingIntake(
        records=stack.embeddings,
        models={"m": Model(name="m", family=family)},
        shapes=lambda name: SHAPES,
        tokens=Words(),
    )
    with Spool() as spool, pytest.raises(InvalidRequest, match="take no embeddings"):
        await intake.take(spool, body(), None, "<cat>")
