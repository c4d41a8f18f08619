"""Server-Sent Events of a job: `/v1/jobs/{id}/events`."""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from api.routes.jobs import show
from api.services.follow import follow as events_of
from api.services.requests import caller_of, services_of
from api.services.services import Services
from api.views.openapi import NOT_FOUND, event_stream
from core.errors import RequestRejected, Unavailable
from core.job import Job, JobEvent
from core.log import get_logger

#: Seconds between comments that keep idle connections open.
PING_S = 15
#: Seconds a stream may take to end, once this process stops.
END_S = 5
#: Milliseconds a client waits before it connects again.
RETRY_MS = 1000
#: An id of a job's stream; what else comes back is no place to resume after.
EVENT_ID = re.compile(r"\d{1,20}(-\d{1,20})?")

PREVIEWS = (
    "Ask for small pictures of the images on their way: a `progress` event has `preview` then, "
    "a JPEG of at most 128 px a side in base64, at most one a second; of a job with several images "
    "that of the first, and all by index in `previews`. They are not kept: who resumes gets the "
    "latest. Models with a safety checker give none."
)

router = APIRouter(tags=["jobs"])
log = get_logger(__name__)


@router.get(
    "/v1/jobs/{job_id}/events",
    summary="Follow one job",
    response_class=Response,
    responses=NOT_FOUND
    | event_stream(
        "Events `status`, `progress` and, at the end, `done` with the job. "
        "Send `Last-Event-ID` to resume: a stream also ends when its server stops.",
        *("status", "progress", "done"),
    )
    | {204: {"description": "`Last-Event-ID` was the last there is: do not connect again"}},
)
async def follow(
    request: Request,
    job_id: str,
    previews: Annotated[bool, Query(description=PREVIEWS)] = False,
) -> Response:
    """Stream a job's events from its first, or from after `Last-Event-ID`, until it has ended."""
    services, tenant = caller_of(request)
    job = await services.jobs.get(job_id, tenant)
    after = request.headers.get("last-event-id", "").strip()
    is_resumed = EVENT_ID.fullmatch(after) is not None
    stream = _stream(request, job, after if is_resumed else None, previews=previews)
    if is_resumed and job.status.is_terminal:  # all there will be is there
        rest = [event async for event in stream]
        return EventSourceResponse(_told(rest)) if rest else Response(status_code=204)
    return EventSourceResponse(stream, ping=PING_S, shutdown_grace_period=END_S)


async def _told(events: Sequence[ServerSentEvent]) -> AsyncIterator[ServerSentEvent]:
    for event in events:
        yield event


async def _stream(
    request: Request, job: Job, after: str | None, *, previews: bool
) -> AsyncIterator[ServerSentEvent]:
    services = services_of(request)
    if after is None:  # say where it stands: a queued job has no events yet
        status = {"status": job.status.value}
        yield ServerSentEvent(_text(status), event="status", retry=RETRY_MS)
    try:
        async for event in events_of(request, job, after or "0", previews=previews):
            yield await _sent(services, job, event)
    except (
        Unavailable,
        RequestRejected,
    ) as error:  # the client comes back and resumes, or learns why
        log.warning("events_ended_early", job=job.id, error=repr(error))
    if services.stopping.is_set():
        yield ServerSentEvent(comment="this server stops: connect again", retry=RETRY_MS)


async def _sent(services: Services, job: Job, event: JobEvent) -> ServerSentEvent:
    if event.event != "done":
        return ServerSentEvent(_text(event.data), event=event.event, id=event.id)
    ended = await show(services, await services.jobs.get(job.id, job.tenant))
    return ServerSentEvent(ended.model_dump_json(), event="done", id=event.id)


def _text(data: object) -> str:
    return msgspec.json.encode(data).decode()
