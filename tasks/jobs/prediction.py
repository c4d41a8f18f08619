"""A job as Replicate's clients read it: a prediction. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from core.job import Job, JobRequest, JobStatus

#: Who owns the models, where a client asks for `owner/name`.
OWNER: Final = "atelier"
#: Signs the URL of an object: key -> URL, expiry (epoch s).
Sign = Callable[[str], tuple[str, float]]

#: Its client knows no other words than these; a job that came too late has failed.
STATUS: Final[Mapping[JobStatus, str]] = {
    JobStatus.QUEUED: "starting",
    JobStatus.RUNNING: "processing",
    JobStatus.SUCCEEDED: "succeeded",
    JobStatus.FAILED: "failed",
    JobStatus.CANCELED: "canceled",
    JobStatus.EXPIRED: "failed",
}
#: Field of a job -> what most models there call it.
NAMES: Final[Mapping[str, str]] = {
    "steps": "num_inference_steps",
    "guidance": "guidance_scale",
    "n": "num_outputs",
}
#: Plain fields of a request that are said beside the input, or are nobody's to send there.
_OUTSIDE: Final = frozenset({"task", "model", "application", "slo_s", "quality", "priority"})


def version_of(model: str) -> str:
    """Name the one version of a model."""
    return sha256(model.encode()).hexdigest()


def prediction(job: Job, sign: Sign, public_url: str) -> dict[str, object]:
    """Show a job as a prediction; `sign` is asked for each image."""
    url, request = f"{public_url}/v1/predictions/{job.id}", job.request
    urls = [sign(image.key)[0] for image in job.images]
    return {
        "id": job.id,
        "model": f"{OWNER}/{request.model}",
        "version": version_of(request.model),
        "status": STATUS[job.status],
        "input": _input(request),
        "output": urls or None,
        "logs": _logs(job),
        "error": _error(job),
        "metrics": _metrics(job),
        "created_at": _iso(job.created_at),
        "started_at": _iso(job.started_at),
        "completed_at": _iso(job.finished_at),
        "data_removed": False,
        "urls": {"get": url, "cancel": f"{url}/cancel", "stream": f"{url}/stream"},
    }


def progress_line(step: int, steps: int) -> str:
    """Write progress as tqdm does: its client reads it from the logs."""
    share = step / steps if steps else 0.0
    return f"{share:4.0%}|{'█' * int(10 * share):10}| {step}/{steps}"


def _input(request: JobRequest) -> dict[str, object]:
    said = {each.name: getattr(request, each.name) for each in fields(request)}
    return {
        NAMES.get(name, name): value
        for name, value in said.items()
        if name not in _OUTSIDE and isinstance(value, str | int | float)
    }


def _logs(job: Job) -> str:
    if job.status is JobStatus.SUCCEEDED:
        return progress_line(job.request.steps, job.request.steps)
    if job.status is JobStatus.QUEUED:
        return ""
    return progress_line(job.progress.step, job.progress.steps or job.request.steps)


def _error(job: Job) -> str | None:
    if job.failure is not None:
        return f"{job.failure.title}: {job.failure.detail}".rstrip(": ")
    return "its deadline passed before it was made" if job.status is JobStatus.EXPIRED else None


def _metrics(job: Job) -> dict[str, float]:
    if job.status is not JobStatus.SUCCEEDED:
        return {}
    total_s, queue_s = job.timing.total_s, job.timing.queue_s
    return {"predict_time": round(total_s - queue_s, 3), "total_time": total_s}


def _iso(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()
