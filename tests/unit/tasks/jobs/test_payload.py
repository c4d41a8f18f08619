import json
from dataclasses import replace

import pytest

from core.job import Failure, JobStatus, StoredImage, Timing, WebhookTarget
from storage.jobs.outbox import Delivery
from tasks.jobs.payload import payload
from tests.jobs import a_job

IMAGE = StoredImage(key="t/j1/1/0.png", width=32, height=32, seed=7, sha256="ab")


def read(job, event="completed", body='{"status":"succeeded"}'):
    delivery = Delivery(id="d", job_id=job.id, url="", event=event, attempt=1, body=body)
    return json.loads(payload(delivery, job, lambda key: (f"https://x/{key}", 9.0), now=0.0))


def test_a_finished_job_comes_with_links_to_its_images():
    said = read(replace(a_job(), status=JobStatus.SUCCEEDED, images=(IMAGE,)))
    assert (said["type"], said["timestamp"]) == ("job.completed", "1970-01-01T00:00:00+00:00")
    assert said["data"]["id"] == "j1"
    assert said["data"]["images"] == [
        {
            "url": "https://x/t/j1/1/0.png",
            "expires_at": 9.0,
            "width": 32,
            "height": 32,
            "seed": 7,
            "sha256": "ab",
            "content_type": "image/png",
        }
    ]


def test_a_failed_job_says_why():
    failure = Failure(type="out_of_memory", title="No", detail="too large")
    said = read(replace(a_job(), status=JobStatus.FAILED, failure=failure))
    assert said["data"]["error"] == {"type": "out_of_memory", "title": "No", "detail": "too large"}


def test_progress_says_how_far_it_had_come_then():
    said = read(a_job(), event="progress", body='{"step":3,"steps":9}')
    assert said["type"] == "job.progress"
    assert said["data"]["progress"] == {"step": 3, "steps": 9}


@pytest.mark.parametrize(
    ("event", "body"), [("started", '{"status":"running"}'), ("progress", '{"step":3,"steps":9}')]
)
@pytest.mark.parametrize("status", [JobStatus.SUCCEEDED, JobStatus.FAILED])
def test_what_comes_late_does_not_tell_the_end(event, body, status):
    said = read(ended(status), event, body)["data"]
    assert (said["status"], said["images"], said["error"]) == ("running", [], None)
    assert (said["finished_at"], said["timing"]["total_s"]) == (None, 0.0)


@pytest.mark.parametrize("event", ["started", "progress"])
def test_a_prediction_that_comes_late_is_being_processed(event):
    webhook = WebhookTarget(url="https://example.com/hook", format="prediction")
    said = read(ended(JobStatus.SUCCEEDED, webhook=webhook), event)
    assert (said["status"], said["output"], said["error"]) == ("processing", None, None)
    assert (said["completed_at"], said["metrics"]) == (None, {})
    assert read(ended(JobStatus.SUCCEEDED, webhook=webhook))["status"] == "succeeded"


def ended(status, **changes):
    failure = Failure(type="out_of_memory", title="No")
    return replace(
        a_job(**changes),
        status=status,
        finished_at=9.0,
        images=(IMAGE,) if status is JobStatus.SUCCEEDED else (),
        failure=failure if status is JobStatus.FAILED else None,
        timing=Timing(total_s=9.0),
    )


def test_prompts_stay_at_home():
    assert "red circle" not in json.dumps(read(a_job()))
