"""Whatever is wrong with a request is named, and nothing is stored or queued."""

import json
import time
import tracemalloc

import pytest

from api.intake.schemas import MAX_SEED

GOOD = {"prompt": "a red circle"}

BAD = [
    ({"colour": "red"}, "colour"),
    ({"output_format": "gif"}, "output_format"),
    ({"second_pass": {}}, "second_pass.scale"),
    ({"second_pass": {"scale": 1}}, "second_pass.scale"),
    ({"second_pass": {"scale": 4, "steps": 10}}, "second_pass.scale"),
    ({"second_pass": {"scale": 2, "strength": 0}}, "second_pass.strength"),
    ({"second_pass": {"scale": 2, "strength": 0.05}, "steps": 10}, "second_pass.strength"),
    ({"second_pass": {"scale": 2, "steps": 1000}}, "second_pass.steps"),
    ({"second_pass": {"scale": 2, "upscaler": "esrgan"}}, "second_pass.upscaler"),
    ({"sigma_spacing": "cosine", "scheduler": "euler"}, "sigma_spacing"),
    ({"sigma_spacing": "karras"}, "sigma_spacing"),
    ({"sigmas": [1.0], "scheduler": "euler"}, "sigmas"),
    ({"sigmas": [-1.0, 0.0], "scheduler": "euler"}, "sigmas.0"),
    ({"sigmas": [1.0, 2.0, 0.0], "scheduler": "euler"}, "sigmas"),
    ({"sigmas": [2.0, 1.0, 0.0], "scheduler": "euler", "steps": 9}, "sigmas"),
    ({"eta": 0.5, "scheduler": "euler"}, "eta"),
    ({"eta": 1.5, "scheduler": "ddim"}, "eta"),
    ({"guidance_rescale": 2}, "guidance_rescale"),
    ({"output_format": "webp", "output_quality": 0}, "output_quality"),
    ({"output_format": "webp", "output_quality": 101}, "output_quality"),
    ({"output_quality": 90}, "output_quality"),
    ({"prompt": None}, "prompt"),
    ({"prompt": 7}, "prompt"),
    ({"prompt": ""}, "prompt"),
    ({"prompt": "  \n\t"}, "prompt"),
    ({"prompt": "a\x00b"}, "prompt"),
    ({"prompt": "a\x1b[31mb"}, "prompt"),
    ({"prompt": "a\x85b"}, "prompt"),
    ({"prompt": "x" * 2001}, "prompt"),
    (
        {"prompt": "one two three four five six seven eight nine ten eleven", "model": "small"},
        "prompt",
    ),
    ({"negative_prompt": "a\x7f"}, "negative_prompt"),
    ({"negative_prompt": 1}, "negative_prompt"),
    ({"negative_prompt": "x" * 2001}, "negative_prompt"),
    ({"model": "unknown"}, "model"),
    ({"model": 1}, "model"),
    ({"width": 65, "model": "small"}, "width"),
    ({"width": 8, "model": "small"}, "width"),
    ({"width": 144, "model": "small"}, "width"),
    ({"height": 70}, "height"),
    ({"height": 2**40}, "height"),
    ({"height": 0}, "height"),
    ({"height": -64}, "height"),
    ({"width": 64.0}, "width"),
    ({"width": "64"}, "width"),
    ({"steps": 0}, "steps"),
    ({"steps": 101}, "steps"),
    ({"steps": 51, "scheduler": "lcm"}, "steps"),
    ({"steps": True}, "steps"),
    ({"steps": "30"}, "steps"),
    ({"guidance": -0.1}, "guidance"),
    ({"guidance": 30.1}, "guidance"),
    ({"guidance": "5"}, "guidance"),
    ({"n": 0}, "n"),
    ({"n": 5}, "n"),
    ({"n": 1.5}, "n"),
    ({"seed": -1}, "seed"),
    ({"seed": 2**63}, "seed"),
    ({"seed": 2**64}, "seed"),
    ({"seed": 2**80}, "seed"),
    ({"seed": 1.5}, "seed"),
    ({"seed": MAX_SEED, "n": 2}, "seed"),
    ({"scheduler": "magic"}, "scheduler"),
    ({"task": "edit"}, "template"),
    ({"task": "edit"}, "mask"),
    ({"task": "edit", "template": "data:,"}, "mask"),
    ({"task": "edit", "mask": "data:,"}, "template"),
    ({"task": "edit", "strength": 0}, "strength"),
    ({"task": "edit", "strength": 0.09, "steps": 10}, "strength"),
    ({"task": "dream"}, "task"),
    ({"loras": [{"id": "a"}]}, "loras.0.id"),
    ({"loras": [{"id": 1}]}, "loras.0.id"),
    ({"loras": [{"id": "a", "weight": 1}]}, "loras.0.weight"),
    ({"controls": [{"id": "a", "image": "data:,"}]}, "controls.0.id"),
    ({"controls": [{"id": "edges", "image": "data:,"}]}, "controls.0.image"),
    ({"controls": [{"id": "edges", "image": "data:,"}], "model": "large"}, "controls.0.id"),
    ({"controls": [{"id": "edges", "image": "a", "start": 0.5, "end": 0.5}]}, "controls.0.end"),
    ({"controls": [{"id": "edges", "image": "data:,"}] * 4}, "controls"),
    ({"controls": [{"id": "a"}]}, "controls.0.image"),
    ({"template": "t1"}, "template"),
    ({"template": ""}, "template"),
    ({"mask": "m1"}, "mask"),
    ({"strength": 0.5}, "strength"),
    ({"strength": 2}, "strength"),
    ({"application": "nobody"}, "application"),
    ({"quality": "best"}, "quality"),
    ({"priority": "urgent"}, "priority"),
    ({"deadline_s": 0}, "deadline_s"),
    ({"deadline_s": -1}, "deadline_s"),
    ({"deadline_s": 1e9}, "deadline_s"),
    ({"webhook": "https://example.com"}, "webhook"),
    ({"webhook": {"url": ""}}, "webhook.url"),
    ({"webhook": {"url": "http://example.com/"}}, "webhook.url"),
    ({"webhook": {"url": "https://127.0.0.1/"}}, "webhook.url"),
    ({"webhook": {"url": "https://10.1.2.3/"}}, "webhook.url"),
    ({"webhook": {"url": "https://localhost/"}}, "webhook.url"),
    ({"webhook": {"url": "https://[::1]/"}}, "webhook.url"),
    ({"webhook": {"url": "https://example.com", "events": []}}, "webhook.events"),
    ({"webhook": {"url": "https://example.com", "events": ["never"]}}, "webhook.events.0"),
    ({"webhook": {"url": "https://example.com", "secret": "x"}}, "webhook.secret"),
    ({"metadata": {"a": 1}}, "metadata.a"),
    ({"metadata": {str(i): "x" for i in range(17)}}, "metadata"),
    ({"metadata": {"a": "x" * 513}}, "metadata.a"),
    ({"metadata": []}, "metadata"),
]


@pytest.mark.parametrize(("change", "field"), BAD, ids=[f"{f}-{i}" for i, (_, f) in enumerate(BAD)])
async def test_a_bad_field_is_named_and_nothing_is_stored(client, stack, change, field):
    response = await client.post("/v1/jobs", json=GOOD | change)
    problem = response.json()
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert field in {error["field"] for error in problem["errors"]}
    assert all(error["detail"] for error in problem["errors"])
    assert problem["status"] == 422
    assert problem["instance"] == "/v1/jobs"
    assert stack.is_untouched()
    assert not stack.scheduler.calls


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b'{"prompt":"\\ud800"}']
)
async def test_a_body_that_is_no_json_object_is_refused(client, stack, body):
    headers = {"Content-Type": "application/json"}
    response = await client.post("/v1/jobs", content=body, headers=headers)
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "body"
    assert stack.is_untouched()


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e999"])
async def test_numbers_must_be_finite(client, stack, text):
    body = f'{{"prompt": "a", "guidance": {text}, "deadline_s": {text}}}'
    headers = {"Content-Type": "application/json"}
    response = await client.post("/v1/jobs", content=body, headers=headers)
    assert response.status_code == 422
    assert {e["field"] for e in response.json()["errors"]} >= {"guidance", "deadline_s"}
    assert stack.is_untouched()


async def test_every_wrong_field_is_named_at_once(client):
    wrong = GOOD | {"model": "small", "width": 65, "steps": 1000, "n": 99, "mask": "m"}
    response = await client.post("/v1/jobs", json=wrong)
    fields = [error["field"] for error in response.json()["errors"]]
    assert fields == ["mask", "n", "width", "steps"]


async def test_the_limit_of_an_overlong_prompt_is_stated(client):
    words = "one two three four five six seven eight nine ten eleven"
    response = await client.post("/v1/jobs", json={"prompt": words, "model": "small"})
    assert "at most 10" in response.json()["errors"][0]["detail"]


async def test_a_refused_value_is_not_repeated(client):
    response = await client.post("/v1/jobs", json=GOOD | {"seed": "my-secret"})
    assert "my-secret" not in response.text


async def test_a_body_with_a_thousand_wrong_fields_gets_a_short_answer(client):
    response = await client.post(
        "/v1/jobs", json=GOOD | {"x" * 500 + str(i): 1 for i in range(1000)}
    )
    assert response.status_code == 422
    assert len(response.content) < 20_000


MANY = {
    "controls": b'{"prompt":"a","controls":[' + b",".join([b"{}"] * 600_000) + b"]}",
    "unknown": b"{" + b",".join(b'"x%d":1' % at for at in range(300_000)) + b"}",
    "numbers": b'{"prompt":"a","seed":[' + b",".join([b"0"] * 2_000_000) + b"]}",
    "nested": b'{"seed":' + b"[" * 1_000_000,
    "digits": b'{"prompt":"a","seed":' + b"9" * 1_000_000 + b"}",
    "escapes": b'{"prompt":"' + b"\\u0061" * 1_000_000 + b'"}',
    "text": b'{"prompt":"' + b"a" * 5_000_000 + b'"}',
}


@pytest.mark.parametrize("what", MANY)
async def test_a_body_of_many_values_is_refused_before_they_are_read(client, stack, what):
    tracemalloc.start()
    headers = {"Content-Type": "application/json"}
    began = time.thread_time()
    response = await client.post("/v1/jobs", content=MANY[what], headers=headers)
    took, (_, peak) = time.thread_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert response.status_code == 422 and len(response.content) < 20_000
    assert took < 1.0 and peak < 4 * len(MANY[what])
    assert stack.is_untouched()


async def test_models_of_an_application_are_bounded(client):
    sent = {"name": "a", "models": ["x"] * 101}
    response = await client.post("/v1/applications", json=sent)
    assert response.status_code == 422 and "at most 100 items" in response.text
    sent["models"] = ["x"] * 100_000
    response = await client.post("/v1/applications", json=sent)
    assert response.status_code == 422 and "at most 20000 are read" in response.text


async def test_json_of_another_media_type_is_refused(client, stack):
    for headers in ({"Content-Type": "text/plain"}, {}):
        body = json.dumps(GOOD).encode()
        response = await client.post("/v1/jobs", content=body, headers=headers)
        assert response.status_code == 415
    assert stack.is_untouched()


async def test_a_body_over_the_limit_is_refused(client, stack):
    too_large = {"prompt": "a", "metadata": {"a": "x" * stack.settings.max_body_bytes}}
    response = await client.post("/v1/jobs", json=too_large)
    assert response.status_code == 413
    assert response.json()["title"]
    assert stack.is_untouched()


async def test_the_body_limit_holds_while_streaming(client, stack):
    sent = 0

    async def endless():
        nonlocal sent
        while True:
            sent += 1
            yield b"x" * 2**20

    response = await client.post("/v1/jobs", content=endless())
    assert response.status_code == 413
    assert sent <= stack.settings.max_body_bytes / 2**20 + 2
    assert stack.is_untouched()


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_an_idempotency_key_has_bounds(client, stack, key):
    response = await client.post("/v1/jobs", json=GOOD, headers={"Idempotency-Key": key})
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "Idempotency-Key"
    assert stack.is_untouched()


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=x", "limit"),
        ("status=done", "status"),
        ("cursor=x", "cursor"),
    ],
)
async def test_a_bad_list_parameter_is_named(client, query, field):
    response = await client.get(f"/v1/jobs?{query}")
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == field


@pytest.mark.parametrize("wait", ["-1", "61", "nan", "x"])
async def test_a_bad_wait_is_named(client, wait):
    job = (await client.post("/v1/jobs", json=GOOD)).json()
    response = await client.get(f"/v1/jobs/{job['id']}?wait={wait}")
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "wait"
