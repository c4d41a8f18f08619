"""LoRAs: checked against the models, kept per tenant, named by jobs, and deleted."""

import tracemalloc
from hashlib import sha256

import pytest
from safetensors.torch import save

from tests.loras import KOHYA, PEFT, factors

SMALL = {"unet.conv_in": (8, 4, 3, 3), "unet.mid_block.attentions.0.proj_in": (16, 16)}
LARGE = SMALL | {"unet.mid_block.attentions.0.proj_out": (16, 16)}
FILE = {"content-type": "application/octet-stream"}


def a_file(shapes=SMALL):
    drawn = factors(shapes, ("",))
    return save(
        {f"{at}{r}": t for at, pair in drawn.items() for r, t in zip(PEFT, pair, strict=True)}
    )


@pytest.fixture(autouse=True)
def shapes(stack):
    stack.shapes |= {"small": SMALL, "large": LARGE}


async def keep(client, data=None, **params):
    sent = a_file() if data is None else data
    return await client.post("/v1/loras", content=sent, headers=FILE, params=params)


async def kept_id(client, data=None, **params):
    response = await keep(client, data, **params)
    assert response.status_code == 201, response.text
    return response.json()["id"]


async def submit(client, *loras, **changes):
    return await client.post("/v1/jobs", json={"prompt": "x", "loras": list(loras)} | changes)


async def test_a_lora_is_kept_shown_and_listed(client, stack):
    response = await keep(client, bound=10)
    kept = response.json()
    assert response.status_code == 201
    assert response.headers["location"] == f"http://api.test/v1/loras/{kept['id']}"
    assert (kept["models"], kept["layers"], kept["bound"]) == (["small", "large"], 2, 10)
    assert stack.objects.get(f"loras/default/{kept['id']}.safetensors") == a_file()
    assert (await client.get(f"/v1/loras/{kept['id']}")).json() == kept
    assert (await client.get("/v1/loras")).json()["data"] == [kept]


async def test_it_is_for_the_models_that_it_fits_or_the_one_named(client):
    fits = (await keep(client, a_file(LARGE))).json()["models"]
    named = (await keep(client, model="large")).json()["models"]
    assert (fits, named) == (["large"], ["large"])


async def test_files_are_judged_by_the_model_that_has_the_name_now(client, stack):
    other = {"unet.conv_in": (16, 4, 3, 3)}
    files = (a_file(), a_file(other))
    before = [(await keep(client, each, model="small")).status_code for each in files]
    stack.shapes["small"] = other
    after = [(await keep(client, each, model="small")).status_code for each in files]
    assert (before, after) == ([201, 422], [422, 201])


@pytest.mark.parametrize(
    ("data", "params", "field", "reason"),
    [
        (b"", {}, "body", "not a safetensors file"),
        (b"PK\3\4 a pickle", {}, "body", "not a safetensors file"),
        (a_file({"unet.elsewhere": (4, 4)}), {}, "body", "no such layer (small)"),
        (a_file(LARGE), {"model": "small"}, "body", "no such layer (small)"),
        (a_file(), {"model": "nobody"}, "model", "must be one of small, large"),
        (a_file(), {"bound": 51}, "bound", ""),
    ],
)
async def test_what_fits_no_model_is_refused_and_not_kept(
    client, stack, data, params, field, reason
):
    response = await keep(client, data, **params)
    assert response.status_code == 422
    assert field in response.text and reason in response.text
    assert stack.is_untouched() and not stack.store.uploads


async def test_a_page_of_another_site_cannot_store_one(client):
    response = await client.post(
        "/v1/loras", content=a_file(), headers={"content-type": "text/plain"}
    )
    assert response.status_code == 415


async def test_a_lora_may_be_larger_than_other_bodies(tmp_path, stack):
    small = type(stack)(tmp_path, max_body_bytes=100, max_lora_bytes=10_000)
    small.shapes |= {"small": SMALL}
    async with small.client() as client:
        assert (await keep(client)).status_code == 201
        assert (await keep(client, bytes(20_000))).status_code == 413


async def test_a_job_goes_to_a_model_that_its_loras_fit(client, stack):
    lora = await kept_id(client, a_file(LARGE), bound=20)
    response = await submit(client, {"id": lora, "scale": 0.5})
    assert response.status_code == 202, response.text
    [[query]] = stack.scheduler.calls
    assert query.models == ("large",)
    assert {terms.adapters for terms in query.terms} == {(f"{lora}@0.5",)}
    job = await stack.jobs.get(response.json()["id"], "default")
    [use] = job.request.loras
    assert (use.id, use.scale, use.bound, use.size_bytes) == (lora, 0.5, 20, len(a_file(LARGE)))
    assert stack.objects.get(use.key) == a_file(LARGE)


async def test_a_job_names_loras_that_are_there_once_each(client, stack):
    lora = await kept_id(client)
    for loras, field in (
        ([{"id": "a"}], "loras.0.id"),
        ([{"id": lora}, {"id": "0" * 32}], "loras.1.id"),
        ([{"id": lora}, {"id": lora}], "loras.1.id"),
        ([{"id": lora, "scale": 11.0}], "loras.0.scale"),
        ([{"id": lora}] * 9, "loras"),
    ):
        response = await submit(client, *loras)
        assert response.status_code == 422
        assert [each["field"] for each in response.json()["errors"]] == [field]
    assert not stack.store.records


async def test_a_job_that_no_model_fits_with_its_loras_says_which(client):
    small, large = await kept_id(client, model="small"), await kept_id(client, a_file(LARGE))
    response = await submit(client, {"id": small}, {"id": large})
    assert response.json()["errors"] == [
        {"field": "loras.1.id", "detail": "fits large, and the request leaves small"}
    ]


async def test_one_that_is_deleted_stays_for_the_jobs_that_were_accepted(client, stack):
    lora = await kept_id(client)
    assert (await submit(client, {"id": lora})).status_code == 202
    gone = await client.delete(f"/v1/loras/{lora}")
    assert gone.json() == {"id": lora, "object": "lora", "deleted": True}
    assert (await submit(client, {"id": lora})).status_code == 422
    assert (await client.delete(f"/v1/loras/{lora}")).status_code == 404
    assert stack.objects.get(f"loras/default/{lora}.safetensors") == a_file()


async def test_tenants_see_and_use_their_own_alone(tmp_path):
    from tests.unit.api.conftest import Stack

    stack = Stack(tmp_path, api_keys={"a" * 32: "ann", "b" * 32: "ben"})
    stack.shapes |= {"small": SMALL}
    ann, ben = ({"authorization": f"Bearer {key * 32}"} for key in "ab")
    async with stack.client() as client:
        lora = (await client.post("/v1/loras", content=a_file(), headers=FILE | ann)).json()["id"]
        assert (await client.get(f"/v1/loras/{lora}", headers=ben)).status_code == 404
        asked = {"prompt": "x", "loras": [{"id": lora}]}
        assert (await client.post("/v1/jobs", json=asked, headers=ben)).status_code == 422
        assert (await client.post("/v1/jobs", json=asked, headers=ann)).status_code == 202


async def test_kohya_files_are_taken_too(client):
    drawn = factors(SMALL, ("proj_in",))
    name = "lora_unet_mid_block_attentions_0_proj_in"
    [pair] = drawn.values()
    data = save({f"{name}{role}": each for role, each in zip(KOHYA, pair, strict=True)})
    assert (await keep(client, data)).json()["layers"] == 1


class Body:
    """A body of many chunks, of which it is known how many were taken."""

    def __init__(self, data):
        self.data, self.taken = data, 0

    async def __aiter__(self):
        for at in range(0, len(self.data), 2**16):
            self.taken += len(self.data[at : at + 2**16])
            yield self.data[at : at + 2**16]


WIDE = {"unet.conv_in": (2**21, 4)}


async def test_a_large_file_is_never_all_in_memory(client, stack):
    stack.shapes |= {"small": WIDE, "large": {}}
    data = a_file(WIDE)
    tracemalloc.start()
    response = await client.post("/v1/loras", content=Body(data), headers=FILE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert response.status_code == 201, response.text
    assert len(data) > 32 * 2**20 and peak < 16 * 2**20
    kept = response.json()
    assert (kept["bytes"], kept["sha256"]) == (len(data), sha256(data).hexdigest())
    assert (
        sha256(stack.objects.get(f"loras/default/{kept['id']}.safetensors")).hexdigest()
        == (kept["sha256"])
    )


@pytest.mark.parametrize("known", [{}, {"unet.conv_in": (2**20, 4)}])
async def test_a_file_whose_header_says_that_it_does_not_fit_is_not_read_on(client, stack, known):
    stack.shapes |= {"small": known, "large": known}
    body = Body(a_file(WIDE))
    response = await client.post("/v1/loras", content=body, headers=FILE)
    assert response.status_code == 422
    assert body.taken < 6 * 2**20 < len(body.data)
    assert stack.is_untouched() and not stack.store.uploads


@pytest.mark.parametrize("cut", [-1, 5 * 2**20])
async def test_a_file_that_ends_early_is_refused_and_not_kept(client, stack, cut):
    stack.shapes |= {"small": WIDE, "large": WIDE}
    response = await client.post("/v1/loras", content=Body(a_file(WIDE)[:cut]), headers=FILE)
    assert response.status_code == 422 and "where the header speaks of" in response.text
    assert stack.is_untouched() and not stack.store.uploads


async def test_a_service_without_room_for_an_upload_says_so(client, stack, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    response = await keep(client)
    assert response.status_code == 503 and response.json()["dependency"] == "objects"
