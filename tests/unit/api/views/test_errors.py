"""Every error is problem+json with a request id, whatever raised it."""

import pytest

from api.views.errors import kind_of
from core.errors import InvalidRequest, NotFound, StoreRefused, StoreUnavailable, TooManyRequests

GOOD = {"prompt": "a red circle", "model": "small"}
KEYS = {"type", "title", "status", "detail", "instance", "request_id"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("DELETE", "/v1/jobs", 405),
        ("POST", "/healthz", 405),
        ("GET", "/v1/jobs/unknown?secret=1", 404),
        ("POST", "/v1/jobs", 422),
    ],
)
async def test_errors_are_problem_details(client, method, path, status):
    response = await client.request(method, path)
    problem = response.json()
    assert response.status_code == problem["status"] == status
    assert response.headers["content-type"] == "application/problem+json"
    assert problem.keys() >= KEYS
    assert problem["instance"] == path.partition("?")[0]
    assert problem["request_id"] == response.headers["x-request-id"]
    assert "secret" not in response.text


async def test_a_method_that_is_not_allowed_says_which_are(client):
    assert "GET" in (await client.delete("/v1/jobs")).headers["allow"]


@pytest.mark.parametrize("error", [StoreUnavailable, StoreRefused])
async def test_a_store_that_is_down_is_named(client, stack, error):
    async def down(*_):
        raise error("10.1.2.3:6379 refused")

    stack.services.submitter.submit = stack.jobs.get = down
    for response in (await client.post("/v1/jobs", json=GOOD), await client.get("/v1/jobs/x")):
        assert response.status_code == 503
        assert response.json()["type"].endswith(":unavailable")
        assert response.json()["dependency"] == "store"
        assert "10.1.2.3" not in response.text
        assert int(response.headers["retry-after"]) > 0


async def test_no_plan_means_there_is_no_worker(client, stack):
    stack.scheduler.plan = None
    response = await client.post("/v1/jobs", json=GOOD)
    assert response.status_code == 503
    assert response.json()["dependency"] == "worker"
    assert int(response.headers["retry-after"]) > 0
    assert stack.is_untouched()


async def test_a_bug_is_a_500_that_tells_nothing(client, stack):
    async def broken(*_):
        raise ZeroDivisionError("internal detail")

    stack.jobs.get = broken
    response = await client.get("/v1/jobs/x")
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-request-id"] == response.json()["request_id"]
    assert "internal detail" not in response.text


def test_problem_types_are_named_after_their_errors():
    kinds = [kind_of(e) for e in (InvalidRequest, NotFound, TooManyRequests)]
    assert kinds == ["invalid-request", "not-found", "too-many-requests"]


async def test_a_refusal_repeats_less_than_a_kilobyte_of_what_was_sent(client):
    names = {f"{at:k>100}": 1 for at in range(50)}
    long = "k" * 7000
    answers = [
        await client.post("/v1/jobs", json=names),
        await client.post("/v1/jobs", json={long: 1}),
        await client.post("/v1/images/generations", json=names),
        await client.post("/v1/models", json=names),
        await client.get(f"/v1/models/{long}"),
        await client.get(f"/v1/jobs/{long}"),
        await client.get(f"/{long}"),
        await client.post(f"/v1/webhooks/{long}/replay"),
        await client.get(f"/v1/jobs?cursor={long}"),
    ]
    for answer in answers:
        assert 400 <= answer.status_code < 500
        assert answer.text.count("k") < 1024, answer.text


async def test_every_wrong_field_of_ours_is_named(client):
    wrong = dict.fromkeys(("prompt", "steps", "width", "height", "n", "seed", "guidance"), "x" * 9)
    answer = await client.post("/v1/jobs", json=wrong | {"prompt": 1})
    assert {each["field"] for each in answer.json()["errors"]} == wrong.keys()
