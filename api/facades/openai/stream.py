"""A request for images answered by Server-Sent Events: previews, then each image."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from io import BytesIO
from typing import Any, Final

from fastapi import Request
from PIL import Image
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from api.facades.openai.inline import BESIDE_BYTES, held, largest_bytes, pieces
from api.facades.openai.schemas import ImageParams
from api.facades.openai.views import STATUS, USAGE, created_at, described, kind, reason
from api.facades.waiting import leave
from api.services.follow import follow
from api.services.requests import services_of
from api.services.services import Services
from api.views.openai_error import error_body
from core.errors import RequestRejected, TooManyRequests, Unavailable
from core.job import Job, JobStatus, StoredImage
from core.log import get_logger

#: Seconds between comments that keep idle connections open, and that a stream may take to end.
PING_S: Final = 15
END_S: Final = 5
#: Sizes of an image that its event takes: pings go between events, so that it is sent whole.
COPIES: Final = 3

log = get_logger(__name__)


def stream(request: Request, job: Job, params: ImageParams, event: str) -> Response:
    """Answer with `<event>.partial_image` for each preview and `<event>.completed` at the end."""
    events = _events(request, job, params.partial_images or 0, event)
    return EventSourceResponse(events, ping=PING_S, shutdown_grace_period=END_S)


async def _events(
    request: Request, job: Job, most: int, event: str
) -> AsyncIterator[ServerSentEvent | bytes]:
    services, has_ended = services_of(request), False
    try:
        async for partial in _partials(request, job, most):
            yield _sent(f"{event}.partial_image", partial)
        job = await services.jobs.get(job.id, job.tenant)
        has_ended = job.status.is_terminal
        async with aclosing(_completed(request, job, f"{event}.completed")) as ended:
            async for sent in ended:
                yield sent
    except TooManyRequests as error:
        yield _sent("error", error_body(429, str(error), code="too_many_requests"))
    except (Unavailable, RequestRejected) as error:
        log.warning("images_not_streamed", job=job.id, error=repr(error))
        said = f"the job {job.id} cannot be read now"
        yield _sent("error", error_body(503, said, code="unavailable"))
    finally:
        if not has_ended:  # its client has left, or can follow it no more
            leave(request, job)


async def _partials(request: Request, job: Job, most: int) -> AsyncIterator[dict[str, Any]]:
    """Follow a job to its end; show the first `most` previews that come."""
    shown = 0
    async for event in follow(request, job, previews=most > 0):
        if shown < most and (preview := event.data.get("preview")):
            said = described(job) | _as_it_is(str(preview))
            said |= {"created_at": int(job.created_at), "b64_json": preview}
            yield said | {"partial_image_index": shown}
            shown += 1


def _as_it_is(preview: str) -> dict[str, str]:
    """Say the format and size of a preview, which are not those of the image."""
    with Image.open(BytesIO(base64.b64decode(preview))) as image:
        return {"output_format": str(image.format).lower(), "size": "{}x{}".format(*image.size)}


async def _completed(
    request: Request, job: Job, event: str
) -> AsyncGenerator[ServerSentEvent | bytes, None]:
    """Say each image of a job that was made, or once why there is none."""
    if job.status is not JobStatus.SUCCEEDED:
        body = error_body(STATUS.get(job.status, 503), reason(job), code=kind(job))
        yield _sent("error", body)
        return
    services = services_of(request)
    said = {"created_at": created_at(job), **described(job), "usage": USAGE}
    with held(request, job, COPIES * largest_bytes(job) + BESIDE_BYTES):
        for image in job.images:
            yield await asyncio.to_thread(_image_event, services, image, event, said)
            yield b""  # sent once the client has read on: till then no other image is in memory


def _image_event(
    services: Services, image: StoredImage, event: str, said: Mapping[str, Any]
) -> bytes:
    """Write an event down as `ServerSentEvent` would, which makes more copies."""
    told = {"type": event, **said, "seed": image.seed}
    written = pieces(services.objects.get(image.key), told)
    return b"".join((f"event: {event}\r\ndata: ".encode(), *written, b"\r\n\r\n"))


def _sent(event: str, data: dict[str, Any]) -> ServerSentEvent:
    return ServerSentEvent(json.dumps({"type": event, **data}), event=event)
