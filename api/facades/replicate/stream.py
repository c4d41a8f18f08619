"""A prediction followed by Server-Sent Events."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from fastapi import Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from api.services.follow import follow
from api.services.requests import services_of
from api.services.services import Services
from core.errors import RequestRejected, Unavailable
from core.job import Job, JobStatus
from core.log import get_logger
from tasks.jobs.prediction import prediction, progress_line

#: Seconds between comments that keep idle connections open, and that a stream may take to end.
PING_S: Final = 15
END_S: Final = 5

log = get_logger(__name__)


def stream(request: Request, job: Job) -> Response:
    """Answer with what happens to a job. Each event has an id: without one it is dropped there."""
    return EventSourceResponse(_events(request, job), ping=PING_S, shutdown_grace_period=END_S)


async def _events(request: Request, job: Job) -> AsyncIterator[ServerSentEvent]:
    services = services_of(request)
    try:
        async for event in follow(request, job):
            if event.event == "progress":
                line = progress_line(_number(event.data, "step"), _number(event.data, "steps"))
                yield ServerSentEvent(line, event="logs", id=event.id)
        job = await services.jobs.get(job.id, job.tenant)
        if not job.status.is_terminal:  # this process stops: they come again
            return
    except (Unavailable, RequestRejected) as error:
        log.warning("prediction_not_followed", job=job.id, error=repr(error))
        return
    for end in await asyncio.to_thread(_ends, services, job):
        yield end


def _ends(services: Services, job: Job) -> list[ServerSentEvent]:
    if job.status is JobStatus.SUCCEEDED:
        urls = [services.urls.sign(image.key)[0] for image in job.images]
        sent = [
            ServerSentEvent(url, event="output", id=f"output-{at}") for at, url in enumerate(urls)
        ]
        return [*sent, ServerSentEvent("{}", event="done", id="done")]
    shown = prediction(job, services.urls.sign, services.urls.public_url)
    return [ServerSentEvent(str(shown["error"] or shown["status"]), event="error", id="done")]


def _number(data: object, name: str) -> int:
    return int(data.get(name, 0)) if isinstance(data, dict) else 0
