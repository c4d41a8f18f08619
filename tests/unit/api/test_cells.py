"""In a cell, whatever is made has an id that names the cell, and works by it."""

from dataclasses import replace

import pytest
from safetensors.torch import save

from core.cells.capacity import Segment
from core.cells.ids import cell_of
from tests.loras import PEFT, factors
from tests.unit.api.conftest import MODELS, PLAN, Stack
from tests.unit.api.pictures import a_mask, a_photo

PNG = {"content-type": "image/png"}
WEIGHTS = {"content-type": "application/octet-stream"}
SHAPES = {"unet.conv_in": (8, 4, 3, 3)}


@pytest.fixture
async def client(tmp_path):
    stack = Stack(tmp_path, cell="eu")
    stack.shapes |= dict.fromkeys(MODELS, SHAPES)
    async with stack.client() as client:
        yield client


def a_lora():
    pairs = factors(SHAPES, ("",))
    return save(
        {f"{at}{r}": t for at, two in pairs.items() for r, t in zip(PEFT, two, strict=True)}
    )


async def made(client, path, content, headers):
    response = await client.post(path, content=content, headers=headers)
    assert response.status_code == 201, response.text
    kept = response.json()
    assert cell_of(kept["id"]) == "eu"
    assert (await client.get(f"{path}/{kept['id']}")).json()["id"] == kept["id"]
    return kept["id"]


async def test_a_job_names_its_cell_in_its_id_and_urls(client):
    job = (await client.post("/v1/jobs", json={"prompt": "a circle"})).json()
    assert cell_of(job["id"]) == "eu"
    assert job["id"] in job["urls"]["self"]
    assert (await client.get(job["urls"]["self"])).json()["id"] == job["id"]


async def test_lists_go_on_after_ids_that_name_a_cell(client):
    ids = [(await client.post("/v1/jobs", json={"prompt": "a"})).json()["id"] for _ in range(3)]
    first = (await client.get("/v1/jobs", params={"limit": 2})).json()
    rest = (await client.get("/v1/jobs", params={"limit": 2, "cursor": first["cursor"]})).json()
    assert {each["id"] for each in first["data"] + rest["data"]} == set(ids)


async def test_what_is_kept_names_its_cell_and_jobs_find_it_by_that(client):
    template = await made(client, "/v1/templates", a_photo(), PNG)
    mask = await made(client, "/v1/files", a_mask(), PNG)
    lora = await made(client, "/v1/loras", a_lora(), WEIGHTS)
    edit = {"task": "edit", "prompt": "a", "template": template, "mask": mask}
    for asked in (edit, {"prompt": "a", "loras": [{"id": lora}]}):
        response = await client.post("/v1/jobs", json=asked)
        assert response.status_code == 202, response.text


async def test_a_cell_says_its_name_and_what_it_can_do_where_routers_look(tmp_path):
    stack = Stack(tmp_path, cell="eu")
    segment = Segment(rate=2.0, worth=0.9)
    async with stack.client() as client:
        stack.report()
        await stack.publish(PLAN)
        assert (await client.get("/readyz")).json() == {"status": "ready", "cell": "eu"}
        await stack.publish(replace(PLAN, version=2, capacity=(segment,), demand={"default": 0.5}))
        said = (await client.get("/readyz")).json()
    assert said["capacity"] == {"segments": [{"rate": 2.0, "worth": 0.9}], "demand": 0.5}


async def test_without_cells_nothing_more_is_said(client_of_none):
    assert (await client_of_none.get("/readyz")).json() == {"status": "ready"}


@pytest.fixture
async def client_of_none(tmp_path):
    stack = Stack(tmp_path)
    async with stack.client() as client:
        stack.report()
        await stack.publish(PLAN)
        yield client
