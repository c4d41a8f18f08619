"""Webhook body `{type, timestamp, data}`, or a prediction: links instead of images. Pure."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from core.codec import decode, encode
from core.job import Job, JobStatus, StoredImage, Timing
from core.request.output import OutputFormat
from storage.jobs.outbox import Delivery
from tasks.jobs.prediction import prediction

#: Signs the URL of an object: key -> URL, expiry (epoch s).
Sign = Callable[[str], tuple[str, float]]


def payload(delivery: Delivery, job: Job, sign: Sign, now: float, public_url: str = "") -> bytes:
    """Write the body of one delivery: the job as it is, and what the event itself said.

    Only the delivery that tells of its end shows it: others may be sent after it has ended.
    """
    if delivery.event != "completed":
        job = _unfinished(job)
    if job.request.webhook is not None and job.request.webhook.format == "prediction":
        return encode(prediction(job, sign, public_url))
    news = decode(delivery.body, dict[str, object])
    return encode(
        {
            "type": f"job.{delivery.event}",
            "timestamp": datetime.fromtimestamp(now, UTC).isoformat(),
            "data": {**_job(job, sign), **_news(delivery, news)},
        }
    )


def _unfinished(job: Job) -> Job:
    return replace(
        job,
        status=JobStatus.RUNNING,
        finished_at=None,
        images=(),
        failure=None,
        timing=Timing(),
    )


def _news(delivery: Delivery, news: dict[str, object]) -> dict[str, object]:
    """What was true when the event happened, if the job has moved on since."""
    return {"progress": news} if delivery.event == "progress" else news


def _job(job: Job, sign: Sign) -> dict[str, object]:
    return {
        "id": job.id,
        "object": "job",
        "status": job.status,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "attempts": job.attempts,
        "placement": {"model": job.placement.model, "level": job.placement.level},
        "images": [_image(image, sign) for image in job.images],
        "error": job.failure,
        "timing": job.timing,
        "metadata": job.request.metadata,
    }


def _image(image: StoredImage, sign: Sign) -> dict[str, object]:
    url, expires_at = sign(image.key)
    return {
        "url": url,
        "expires_at": expires_at,
        "width": image.width,
        "height": image.height,
        "seed": image.seed,
        "sha256": image.sha256,
        "content_type": OutputFormat.of_key(image.key).content_type,
    }
