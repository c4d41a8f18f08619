import json
import re
from io import BytesIO
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from standardwebhooks import Webhook

from atelier_client import DoneEvent, JobStatus, ProgressEvent, StatusEvent
from cli.main import main
from tests.e2e.shared.hook import receiving
from tests.e2e.waiting import made, make, until
from zoo.checker import check
from zoo.scenes import held_out

pytestmark = pytest.mark.e2e

#: More steps than any test waits for.
LONG = {"prompt": "a blue square", "steps": 1000, "n": 4}

#: What operators are promised to find at `/metrics`.
METRICS = {
    "atelier_cache_hits_total",
    "atelier_cache_retrieval_seconds",
    "atelier_e2e_request_latency_seconds",
    "atelier_fenced_writes_total",
    "atelier_jobs_dead_total",
    "atelier_jobs_total",
    "atelier_level_total",
    "atelier_model_load_seconds",
    "atelier_num_requests_running",
    "atelier_num_requests_waiting",
    "atelier_oldest_waiting_seconds",
    "atelier_quality_estimate",
    "atelier_redeliveries_total",
    "atelier_request_queue_time_seconds",
    "atelier_saturation",
    "atelier_slo_violations_total",
    "atelier_step_time_seconds",
    "atelier_webhook_deliveries_total",
}


def running_slots(http):
    return sum(worker["running"] for worker in http.get("/v1/fleet").json()["workers"])


def resident(http):
    return [m["id"] for m in http.get("/v1/models").json()["data"] if m["is_resident"]]


def test_everything_is_ready(http):
    assert http.get("/healthz").status_code == 200
    until(lambda: http.get("/readyz").status_code == 200)


def test_prompts_become_images_that_match_them(client):
    scenes = held_out(1, 6, seed=5)
    bodies = [{"prompt": scene.caption, "seed": 11, "steps": 15} for scene in scenes]
    jobs = [made(client, client.jobs.create(**body).id) for body in bodies]
    assert {job.status for job in jobs} == {JobStatus.SUCCEEDED}
    right = 0
    for scene, job in zip(scenes, jobs, strict=True):
        (picture,) = job.images
        image = Image.open(BytesIO(client.images.fetch(picture)))
        assert image.size == (64, 64)
        right += check(np.asarray(image.convert("RGB"), dtype=np.uint8), scene).is_right
    assert right >= 5


def pixels(client, picture):
    image = Image.open(BytesIO(client.images.fetch(picture))).convert("RGB")
    return np.asarray(image, dtype=np.int16)


def distance(client, one, other):
    """The largest difference of two pictures, of 255. Kernels round differently by batch size,
    by 1e-4 of an image's range at most: that can tip a value to the next of 256 levels.
    """
    return np.abs(pixels(client, one) - pixels(client, other)).max()


def test_a_seed_makes_the_same_image_alone_and_in_company(client):
    alone = make(client, seed=3)
    prompts = ("a star", "two stars", "a red circle")
    together = [client.jobs.create(prompt=each, seed=3, steps=4).id for each in prompts]
    jobs = [made(client, job_id) for job_id in together]
    assert distance(client, jobs[-1].images[0], alone.images[0]) <= 1
    assert distance(client, jobs[0].images[0], alone.images[0]) > 1


def test_several_images_have_the_seeds_that_follow(client):
    pair, second = make(client, seed=8, n=2), make(client, seed=9)
    assert [image.seed for image in pair.images] == [8, 9]
    assert distance(client, pair.images[1], second.images[0]) <= 1


def test_the_time_of_a_job_adds_up(client):
    assert min(_left_out_s(make(client).timing) for _ in range(4)) < 0.05


def _left_out_s(timing):
    """What a stall between two parts takes is in none of them."""
    parts = timing.queue_s + timing.prepare_s + timing.denoise_s + timing.finish_s
    return abs(timing.total_s - parts)


def test_events_tell_every_stage_in_order(client):
    job = client.jobs.create(prompt="a green star", steps=200)  # it runs when it is followed
    events = list(client.jobs.stream(job.id))
    steps = [event.step for event in events if isinstance(event, ProgressEvent)]
    assert steps == sorted(steps)
    assert len(steps) >= 1, "at most once a second"
    assert isinstance(events[0], StatusEvent)
    assert isinstance(events[-1], DoneEvent)
    assert events[-1].job.status is JobStatus.SUCCEEDED


def test_a_running_job_stops_when_it_is_canceled(client, http):
    job = client.jobs.create(**LONG)
    until(lambda: client.jobs.get(job.id).progress.step >= 2)
    assert client.jobs.cancel(job.id).status is JobStatus.CANCELED
    assert client.jobs.cancel(job.id).status is JobStatus.CANCELED
    until(lambda: running_slots(http) == 0)
    ended = client.jobs.get(job.id)
    assert ended.progress.step < LONG["steps"]
    assert ended.images == ()


def test_a_deadline_that_cannot_be_met_is_refused_at_the_door(client, http):
    until(lambda: resident(http))  # the api looks at the fleet once a second
    answer = http.post("/v1/jobs", json={**LONG, "deadline_s": 0.5})
    assert answer.status_code == 429
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) >= 1
    assert "0.5 s" in answer.json()["detail"]
    taken = http.post("/v1/jobs", json={**LONG, "deadline_s": 3600}).json()
    assert 0.5 < taken["eta_s"] < 3600
    assert client.jobs.cancel(taken["id"]).status is JobStatus.CANCELED


def test_an_application_is_registered_named_and_deleted(client, http):
    until(lambda: resident(http))
    (model,) = resident(http)
    body = {"name": "avatars", "models": [model], "slo_s": 30.0, "quality_floor": 0.5}
    assert http.post("/v1/applications", json=body).status_code == 201
    job = client.jobs.create(prompt="a red circle", application="avatars", steps=4)
    assert made(client, job.id).placement.model == model
    assert http.delete("/v1/applications/avatars").status_code == 200
    refused = http.post("/v1/jobs", json={"prompt": "a red circle", "application": "avatars"})
    assert refused.status_code == 422


def test_bad_input_is_refused_field_by_field_and_leaves_nothing(client, http):
    before = http.get("/v1/jobs").json()["data"][:1]
    answer = http.post("/v1/jobs", json={"prompt": "", "width": 63, "colour": "red"})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert {error["field"] for error in answer.json()["errors"]} >= {"colour"}
    after = http.get("/v1/jobs").json()["data"][:1]
    assert [job["id"] for job in before] == [job["id"] for job in after]


def test_a_url_that_was_changed_is_forbidden(client):
    url = make(client).images[0].url
    assert httpx.get(url).status_code == 200
    for changed in (
        re.sub(r"signature=.", "signature=x", url),
        re.sub(r"expires=\d", "expires=9", url),
        url.replace("/0.png", "/1.png"),
        url.partition("?")[0],
    ):
        assert httpx.get(changed).status_code in (403, 404)


def test_the_same_idempotency_key_is_the_same_job(http):
    headers = {"Idempotency-Key": "e2e-once"}
    body = {"prompt": "a red circle", "steps": 4}
    first, second = (http.post("/v1/jobs", json=body, headers=headers).json() for _ in range(2))
    assert first["id"] == second["id"]
    other = http.post("/v1/jobs", json={**body, "steps": 5}, headers=headers)
    assert other.status_code == 409


def test_a_webhook_arrives_signed_even_if_the_receiver_is_down_at_first(client, service):
    secret = json.loads(Path(service.addresses.secrets).read_text())["webhook_secret"]
    with receiving(refusals=1) as receiver:
        job = make(client, webhook={"url": receiver.url, "events": ["completed"]})
        until(lambda: len(receiver.hooks) >= 2)
    refused, taken = receiver.hooks[:2]
    assert refused.headers["webhook-id"] == taken.headers["webhook-id"]
    told = Webhook(secret).verify(taken.body, taken.headers)
    assert job.id in json.dumps(told)


def test_metrics_count_what_happened(client, http):
    make(client)
    text = http.get("/metrics").text
    line = r'atelier_jobs_total\{status="succeeded",task="generate"\} (\d+)'
    swapped = r'atelier_jobs_total\{task="generate",status="succeeded"\} (\d+)'
    found = re.search(line, text) or re.search(swapped, text)
    assert float(found[1]) >= 1


def test_one_address_shows_what_every_process_counts(client, http):
    make(client)
    texts = []

    def has(sample):
        return re.search(rf"^{sample} [1-9]", texts[-1], re.MULTILINE)

    def is_counted():
        texts.append(http.get("/metrics").text)
        return has(r'atelier_e2e_request_latency_seconds_count\{task="generate"\}')

    until(is_counted)
    shown = re.findall(r"^# TYPE (\w+) ", texts[-1], re.MULTILINE)
    assert METRICS - {*shown} == set()
    assert len(shown) == len({*shown})
    assert has(r'atelier_step_time_seconds_count\{model="shapes-xl"\}')
    assert has("atelier_model_load_seconds_count")


def test_the_command_line_makes_an_image(service, tmp_path, capfd):
    path = tmp_path / "star.png"
    with pytest.raises(SystemExit, match="0"):
        asked = ["a star", "--steps", "4", "--out", str(path)]
        main(["submit", *asked, "--url", service.addresses.api, "--json"])
    assert json.loads(capfd.readouterr().out)["status"] == "succeeded"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_load_test_reports_a_run_in_which_everything_succeeded(service, tmp_path, capfd):
    given = ["--rate", "2", "--duration", "3", "--steps", "10"]
    with pytest.raises(SystemExit, match="0"):
        main(["load", *given, "--out", str(tmp_path), "--url", service.addresses.api, "--json"])
    report = json.loads(capfd.readouterr().out)
    assert report["endings"] == {"succeeded": report["asked"]}
    assert report["levels"] == {"shapes-xl@0": 1.0}
    assert (tmp_path / "report.html").stat().st_size > 10_000
