import pytest

from core.tenants.limits import TenantLimits
from tests.unit.api.conftest import Stack
from tests.unit.api.pictures import a_photo
from tests.unit.api.routes.tenants.test_keys import GOOD, add, by


@pytest.fixture
def stack(tmp_path):
    return Stack(
        tmp_path,
        api_keys={"set": "anna"},
        operator_keys=("boss",),
        tenant_weights={"anna": 3.0},
        tenant_limits={"images_a_day": 10},
    )


@pytest.fixture
async def client(stack):
    async with stack.client(Authorization="Bearer boss") as client:
        yield client


async def change(client, tenant="anna", **said):
    response = await client.patch(f"/v1/tenants/{tenant}", json=said)
    assert response.status_code == 200, response.text
    return response.json()


async def submit(client, path="/v1/jobs", body=GOOD):
    return await client.post(path, json=body, headers=by("set"))


async def test_of_whom_nothing_is_said_the_settings_say_all(client):
    shown = (await client.get("/v1/tenants/anna")).json()
    assert (shown["weight"], shown["limits"]["images_a_day"], shown["own"]) == (3.0, 10, [])
    assert shown["limits"]["jobs_per_s"] is None
    assert (await client.get("/v1/tenants/nobody")).json()["weight"] == 1.0


async def test_what_is_changed_holds_at_once_and_what_is_not_named_stays(client, stack):
    changed = await change(client, open_jobs=2, weight=5)
    assert (changed["weight"], changed["own"]) == (5.0, ["weight", "open_jobs"])
    changed = await change(client, jobs_per_s=0.5, burst=1)
    assert changed["own"] == ["weight", "jobs_per_s", "burst", "open_jobs"]
    assert changed == (await client.get("/v1/tenants/anna")).json()
    job = (await submit(client)).json()
    assert stack.store.records[job["id"]].work == pytest.approx(
        stack.store.records[job["id"]].job.request.work / 5.0
    )
    taken_back = await change(client, weight=None, jobs_per_s=None, burst=None)
    assert (taken_back["weight"], taken_back["own"]) == (3.0, ["open_jobs"])


async def test_its_jobs_are_kept_no_longer_than_those_of_all(client, stack):
    assert (await client.get("/v1/tenants/anna")).json()["retention_s"] == 86400.0
    changed = await change(client, retention_s=600)
    assert (changed["retention_s"], changed["own"]) == (600.0, ["retention_s"])
    assert stack.services.tenants.terms_of("anna").retention_s == 600.0
    assert stack.services.tenants.terms_of("bolt").retention_s == 86400.0


async def test_everybody_who_has_a_key_is_listed(client):
    await add(client, "bolt")
    await change(client, "zoe", weight=2)
    listed = (await client.get("/v1/tenants")).json()["data"]
    assert [each["name"] for each in listed] == ["anna", "bolt", "operators", "zoe"]


async def test_an_answer_says_what_is_left_and_a_refusal_when_to_come_back(client):
    await change(client, jobs_per_s=0.1, burst=2, open_jobs=5)
    first = await submit(client)
    assert first.headers["ratelimit-policy"] == (
        '"jobs";q=2;w=20, "open";q=5;qu="concurrent-requests", "images";q=10;qu="images";w=86400'
    )
    assert first.headers["ratelimit"].startswith('"jobs";r=1;t=10, "open";r=4, "images";r=9;t=')
    await submit(client)
    refused = await submit(client)
    assert refused.status_code == 429
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["type"] == "urn:problem-type:atelier:limit-reached"
    assert "0.1 jobs a second" in refused.json()["detail"]
    assert 1 <= int(refused.headers["retry-after"]) <= 10
    assert refused.headers["ratelimit"].startswith('"jobs";r=0;t=20, "open";r=3')


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/images/generations", {"prompt": "a red circle", "model": "small", "stream": True}),
        ("/v1/predictions", {"version": "atelier/small", "input": {"prompt": "a red circle"}}),
    ],
)
async def test_facades_say_it_too(client, stack, path, body):
    await change(client, open_jobs=1)
    if "stream" not in body:
        accepted = await submit(client, path, body)
        assert accepted.headers["ratelimit"].startswith('"open";r=0')
    else:
        await submit(client)
    refused = await submit(client, path, body)
    assert refused.status_code == 429
    assert refused.headers["ratelimit"].startswith('"open";r=0')
    assert int(refused.headers["retry-after"]) >= 1


async def test_who_has_no_limits_is_told_none(tmp_path):
    async with Stack(tmp_path).client() as client:
        assert "ratelimit" not in (await client.post("/v1/jobs", json=GOOD)).headers


async def test_what_a_limit_is_to_refuse_is_no_demand_until_a_job_is_accepted_again(client, stack):
    await change(client, open_jobs=1)
    assert [(await submit(client)).status_code for _ in range(3)] == [202, 429, 429]
    await change(client, open_jobs=2)
    assert [(await submit(client)).status_code for _ in range(3)] == [202, 429, 429]
    counted = [query.is_counted for [query] in stack.scheduler.calls]
    assert counted == [True, True, False, False, True, False]


async def test_what_one_tenant_has_too_much_of_is_the_demand_of_others(client, stack):
    await change(client, open_jobs=1)
    await submit(client)
    assert (await submit(client)).status_code == 429
    made = await add(client)
    await client.post("/v1/jobs", json=GOOD, headers=by(made["key"]))
    assert [query.is_counted for query in stack.scheduler.calls[-1]] == [True]


async def test_bytes_of_uploads_are_limited(client):
    await change(client, kept_bytes=1)
    headers = by("set") | {"content-type": "image/png"}
    refused = await client.post("/v1/files", content=a_photo(), headers=headers)
    assert (refused.status_code, refused.json()["type"]) == (
        429,
        "urn:problem-type:atelier:limit-reached",
    )


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"jobs_per_s": 0}, "jobs_per_s"),
        ({"burst": 0}, "burst"),
        ({"open_jobs": 1.5}, "open_jobs"),
        ({"weight": -1}, "weight"),
        ({"weight": 1e9}, "weight"),
        ({"kept_bytes": 10**16}, "kept_bytes"),
        ({"color": 1}, "color"),
        ({"retention_s": 59}, "retention_s"),
        ({"retention_s": 86401}, "retention_s"),
    ],
)
async def test_what_cannot_be_a_limit_is_refused_by_its_field(client, said, field):
    response = await client.patch("/v1/tenants/anna", json=said)
    assert response.status_code == 422
    assert [each["field"] for each in response.json()["errors"]] == [field]
    assert (await client.get("/v1/tenants/anna")).json()["own"] == []


async def test_tenants_change_nothing_of_theirs(client):
    for method, path in (("GET", "/v1/tenants"), ("PATCH", "/v1/tenants/anna")):
        assert (await client.request(method, path, headers=by("set"))).status_code == 403


async def test_a_name_that_cannot_be_a_tenants_is_refused(client):
    assert (await client.patch("/v1/tenants/a:b", json={})).status_code == 422


async def test_who_changed_what_is_noted(client, logs):
    await change(client, open_jobs=2)
    (noted,) = [each for each in logs if each["event"] == "tenant_changed"]
    assert (noted["tenant"], noted["changes"]) == ("anna", {"open_jobs": 2})
    assert noted["by"].startswith("settings-") and noted["address"] == "127.0.0.1"


def test_what_is_said_of_a_tenant_goes_over_the_defaults():
    defaults = TenantLimits(jobs_per_s=1.0, open_jobs=3)
    assert TenantLimits(open_jobs=5).over(defaults) == TenantLimits(jobs_per_s=1.0, open_jobs=5)
    assert TenantLimits(jobs_per_s=2.5).most_at_once == 2
    assert TenantLimits(jobs_per_s=0.1).most_at_once == 1
