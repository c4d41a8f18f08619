import json
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook

from atelier_client import WebhookRejected, verify_webhook
from core.codec import decode
from core.job import Job, JobRequest, StoredImage
from core.placement import Placement
from storage.jobs.outbox import Delivery
from tasks.jobs.payload import payload

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


def sent(body, at=None, secret=SECRET):
    """The headers of a delivery."""
    at = at or datetime.now(UTC)
    signature = Webhook(secret).sign("d1", at, body.decode())
    return {
        "Webhook-Id": "d1",
        "Webhook-Timestamp": str(int(at.timestamp())),
        "Webhook-Signature": signature,
    }


def a_payload():
    request = JobRequest(
        prompt="a red circle", model="m", width=64, height=64, steps=3, guidance=1.0, seed=7
    )
    place = Placement(queue="gen.m", model="m", level="m@0", affinity="", placed_by="scheduler")
    image = StoredImage(key="t/j/1/0.png", width=64, height=64, seed=7, sha256="ab")
    job = Job(
        id="j",
        tenant="t",
        request=request,
        placement=place,
        status="succeeded",
        created_at=1.0,
        images=(image,),
    )
    delivery = Delivery(
        id="d1", job_id="j", url="https://x", event="completed", attempt=1, body=b"{}"
    )
    return payload(delivery, job, lambda key: (f"https://i/{key}", 9.0), 5.0)


def test_what_our_workers_post_is_verified_and_read():
    body = a_payload()
    told = verify_webhook(body, sent(body), SECRET)
    assert (told.type, told.data.id, told.data.status) == ("job.completed", "j", "succeeded")
    assert told.data.images[0].url == "https://i/t/j/1/0.png"
    assert decode(body, dict[str, object])["type"] == told.type


def test_what_another_signed_or_changed_is_rejected():
    body = a_payload()
    for headers, read in (
        (sent(body, secret=OTHER), body),
        (sent(body), body.replace(b"succeeded", b"failed")),
        ({}, body),
        (sent(body) | {"Webhook-Signature": "v1,%%%"}, body),
        (sent(body) | {"Webhook-Signature": "nonsense"}, body),
        (sent(body, datetime.now(UTC) - timedelta(minutes=6)), body),
    ):
        with pytest.raises(WebhookRejected):
            verify_webhook(read, headers, SECRET)


def test_what_tells_nothing_of_a_job_is_rejected():
    for told in ({"id": "a prediction", "status": "starting"}, []):
        body = json.dumps(told).encode()
        with pytest.raises(WebhookRejected, match="nothing of a job"):
            verify_webhook(body, sent(body), SECRET)
