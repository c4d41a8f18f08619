"""Applications: registered, read and deleted by their tenant, and named by its jobs."""

from dataclasses import replace

import pytest

from core.boards.plan import PasmRow
from tests.unit.api.conftest import PLAN, Stack

AVATARS = {"name": "avatars", "models": ["small"], "slo_s": 2.5, "quality_floor": 0.9}
KEYS = {"k1": "shop", "k2": "bank"}


async def register(client, **fields):
    response = await client.post("/v1/applications", json=AVATARS | fields)
    assert response.status_code == 201, response.text
    return response


async def ask(client, **fields):
    return await client.post("/v1/jobs", json={"prompt": "a red circle"} | fields)


def fields_of(response):
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return {error["field"] for error in response.json()["errors"]}


async def test_what_is_registered_is_read_and_listed(client):
    response = await register(client)
    url = "http://api.test/v1/applications/avatars"
    assert response.headers["location"] == url
    assert response.json() == AVATARS | {"object": "application"}
    assert (await client.get(url)).json() == response.json()
    listed = (await client.get("/v1/applications")).json()
    assert listed == {"object": "list", "data": [response.json()]}
    assert (await client.get("/v1/models")).json()["applications"] == ["default", "avatars"]


async def test_what_is_left_out_is_open(client):
    shown = (await client.post("/v1/applications", json={"name": "a"})).json()
    assert (shown["models"], shown["slo_s"], shown["quality_floor"]) == (
        ["large", "small"],
        None,
        0,
    )


async def test_what_is_deleted_is_gone(client):
    await register(client)
    gone = await client.delete("/v1/applications/avatars")
    assert gone.json() == {"name": "avatars", "object": "application", "deleted": True}
    for method in ("GET", "DELETE"):
        answer = await client.request(method, "/v1/applications/avatars")
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"name": "a/b"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "default"}, "name"),
        ({"name": None}, "name"),
        ({"models": []}, "models"),
        ({"models": ["small", "huge"]}, "models.1"),
        ({"slo_s": 0}, "slo_s"),
        ({"slo_s": "2"}, "slo_s"),
        ({"quality_floor": 1.1}, "quality_floor"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_what_cannot_be_is_refused_by_field(client, stack, fields, wrong):
    assert fields_of(await client.post("/v1/applications", json=AVATARS | fields)) == {wrong}
    assert stack.store.applications == {}


async def test_a_name_is_taken_once_and_as_many_as_may_be(tmp_path):
    async with Stack(tmp_path, max_applications=2).client() as client:
        await register(client)
        assert (await client.post("/v1/applications", json=AVATARS)).status_code == 409
        await register(client, name="other")
        full = await client.post("/v1/applications", json=AVATARS | {"name": "third"})
        assert (full.status_code, full.headers["retry-after"]) == (429, "60")


async def test_a_page_of_another_site_cannot_register(client):
    answer = await client.post(
        "/v1/applications", content=b'{"name": "a"}', headers={"content-type": "text/plain"}
    )
    assert answer.status_code == 415


async def test_tenants_have_their_own(tmp_path):
    stack = Stack(tmp_path, api_keys=KEYS)
    async with stack.client(authorization="Bearer k1") as client:
        theirs = {"authorization": "Bearer k2"}
        assert (
            await client.get("/v1/applications", headers={"authorization": ""})
        ).status_code == 401
        await register(client)
        assert (await client.get("/v1/applications/avatars", headers=theirs)).status_code == 404
        assert (await client.get("/v1/applications", headers=theirs)).json()["data"] == []


async def test_the_plan_is_the_operators_and_names_whose_each_application_is(tmp_path):
    stack = Stack(tmp_path, api_keys=KEYS, operator_keys=("k1",))
    async with stack.client(authorization="Bearer k1") as client:
        rows = (
            PasmRow(application="shop/avatars", affinity="any", shares={"small@0": 1.0}),
            PasmRow(application="default", affinity="any", shares={"small@0": 1.0}),
        )
        rates = {"shop/avatars": 2.0, "other/avatars": 3.0, "default": 1.0}
        await stack.publish(replace(PLAN, pasm=rows, demand=rates))
        own = (await client.get("/v1/plan")).json()
        assert own["demand"] == {"avatars": 2.0, "other/avatars": 3.0, "default": 1.0}
        assert [row["application"] for row in own["pasm"]] == ["avatars", "default"]
        theirs = {"authorization": "Bearer k2"}
        assert (await client.get("/v1/plan", headers=theirs)).status_code == 403


async def test_a_job_is_placed_as_its_application(client, stack):
    await register(client)
    job = (await ask(client, application="avatars")).json()
    assert (job["application"], job["model"]) == ("avatars", "small")
    query = stack.scheduler.calls[-1][0]
    assert (query.application, query.models) == ("default/avatars", ("small",))
    await ask(client)
    await ask(client, application="default")
    assert [calls[0].application for calls in stack.scheduler.calls[-2:]] == ["default"] * 2


async def test_a_job_of_an_application_that_is_not_there_is_refused(client, stack):
    assert fields_of(await ask(client, application="avatars")) == {"application"}
    assert stack.is_untouched()


async def test_a_job_cannot_name_a_model_that_its_application_may_not_use(client, stack):
    await register(client)
    answer = await ask(client, application="avatars", model="large")
    assert fields_of(answer) == {"model"}
    assert answer.json()["errors"][0]["detail"] == "must be one of small"
    assert stack.is_untouched()


async def test_an_application_whose_models_are_gone_says_so(client, stack):
    await register(client)
    kept = stack.store.applications["default/avatars"]
    stack.store.applications[kept.key] = replace(kept, models=("retired",))
    answer = await ask(client, application="avatars")
    assert fields_of(answer) == {"application"}
    assert "retired" in answer.json()["detail"]
