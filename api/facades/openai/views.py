"""What OpenAI's clients read: images, events and why there are none."""

from typing import Any, Final

import msgspec
from fastapi import Request
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from api.facades.openai.schemas import ImageParams
from api.services.services import Services
from api.views.errors import RETRY_AFTER_S
from api.views.openai_error import ErrorView, error_body
from api.views.openapi import Responses
from core.job import Job, JobStatus, Quality

#: HTTP status of a job that was accepted and not made.
STATUS: Final = {JobStatus.FAILED: 500, JobStatus.EXPIRED: 504, JobStatus.CANCELED: 409}
#: What events of finished images must say of tokens, of which nothing is counted here.
USAGE: Final = {
    "input_tokens": 0,
    "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
    "output_tokens": 0,
    "total_tokens": 0,
}


class MadeImageView(BaseModel):
    """One image: its URL or its bytes, and the seed that makes it alone."""

    url: str | None = None
    b64_json: str | None = None
    seed: int


class ImageList(BaseModel):
    """What was made."""

    created: int
    data: list[MadeImageView]
    background: str
    output_format: str
    quality: str
    size: str


IMAGES: Responses = {
    200: {"model": ImageList, "description": "The images, or a stream of events if asked for"},
    **{
        code: {"model": ErrorView, "description": text}
        for code, text in {
            400: "A parameter that cannot be accepted, named by `param`",
            401: "No valid API key",
            404: "No such model",
            429: "The queue is full, or too many images are on their way; see Retry-After",
            500: "The job failed: the message says why",
            503: "A dependency does not answer; see Retry-After",
        }.items()
    },
}


def _body(kind: str, more: dict[str, Any]) -> dict[str, Any]:
    schema = ImageParams.model_json_schema(ref_template="#/components/schemas/{model}")
    schema["properties"] |= more
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}


_FILE = {"type": "string", "format": "binary"}
GENERATION: Final = _body("application/json", {})
EDIT: Final = _body(
    "multipart/form-data",
    {
        "image": _FILE | {"description": "PNG, JPEG or WebP, of a size that the model makes."},
        "mask": _FILE
        | {
            "description": "PNG of the image's size, transparent (alpha 0) where it is made anew. "
            "Left out: the image's own transparent parts."
        },
    },
)


def url_body(services: Services, job: Job) -> bytes:
    """Write down where the images of a job that succeeded are.

    Raises:
        Unavailable: the object store cannot serve now.
    """
    signed = [(services.urls.sign(image.key)[0], image.seed) for image in job.images]
    data = [{"url": url, "seed": seed} for url, seed in signed]
    return msgspec.json.encode({"created": created_at(job), **described(job), "data": data})


def created_at(job: Job) -> int:
    """Tell when the images of a job were made, in epoch s."""
    return int(job.finished_at or job.created_at)


def described(job: Job) -> dict[str, Any]:
    """Say how the images of a job were made."""
    request = job.request
    return {
        "background": "opaque",
        "output_format": request.output.format.value,
        "quality": "high" if request.quality is Quality.EXACT else "auto",
        "size": f"{request.width}x{request.height}",
    }


def not_made(request: Request, job: Job, *, is_stopping: bool) -> Response:
    """Say why an accepted job has no images.

    The client must not send it again by itself, except where this process stops: another process
    takes it, and finds the same job if it has a key; without one that is canceled.
    """
    retry = {"x-should-retry": "true" if is_stopping else "false"}
    if not job.status.is_terminal:
        status = 503 if is_stopping else 504
        retry |= {"Retry-After": str(RETRY_AFTER_S)} if is_stopping else {}
        message = "this server stops: send it again" if is_stopping else "it took too long"
        return JSONResponse(error_body(status, message, code="not_finished"), status, retry)
    body = error_body(STATUS[job.status], reason(job), code=kind(job))
    return JSONResponse(body, STATUS[job.status], retry)


def reason(job: Job) -> str:
    """Say in a line what became of a job that was not made."""
    if job.failure is None:
        return f"the job {job.id} was {job.status.value}"
    return f"{job.failure.title}: {job.failure.detail}".rstrip(": ")


def kind(job: Job) -> str:
    """Name what became of a job that was not made."""
    return job.failure.type if job.failure is not None else job.status.value
