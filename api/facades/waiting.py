"""Wait for a job on behalf of a client that knows only this one request."""

import asyncio
import time
from typing import Final

from fastapi import Request
from starlette.requests import ClientDisconnect

from api.services.follow import wait_for_end
from api.services.requests import idempotency_key, services_of
from api.services.services import Services
from core.errors import NotFound, Unavailable
from core.job import Job
from core.log import get_logger

#: Seconds between two looks at a store that is away.
RETRY_S: Final = 1.0
#: Seconds that one look lasts at most.
LOOK_S: Final = 60.0

log = get_logger(__name__)
#: Cancellations under way: what was the only reference to them has gone with its request.
_leaving: set[asyncio.Task[None]] = set()


async def until_end(services: Services, request: Request, job: Job, wait_s: float) -> Job:
    """Read a job when it has ended, or as it stands when time is up or this process stops.

    A store that goes away meanwhile is waited for: the job was accepted, and its client has no
    other way to it.

    Raises:
        ClientDisconnect: nobody waits for the answer any more.
    """
    until = time.monotonic() + wait_s
    while not job.status.is_terminal and not services.stopping.is_set():
        if (left_s := until - time.monotonic()) <= 0:
            return job
        try:
            await wait_for_end(services, request, job.id, min(left_s, LOOK_S))
            job = await services.jobs.get(job.id, job.tenant)
        except Unavailable as error:
            log.warning("job_not_seen", job=job.id, reason=str(error))
            await asyncio.sleep(min(RETRY_S, max(0.0, until - time.monotonic())))
    return job


async def until_end_or_cancel(services: Services, request: Request, job: Job, wait_s: float) -> Job:
    """Wait as `until_end` does; a client that leaves takes its job with it, if it has no key."""
    try:
        return await until_end(services, request, job, wait_s)
    except ClientDisconnect:
        leave(request, job)
        raise


def leave(request: Request, job: Job) -> None:
    """Cancel a job that nobody waits for, whatever becomes of the request that asks for it.

    One with an Idempotency-Key goes on: who sends the request again is to find its images.
    """
    if idempotency_key(request) is not None:
        return
    task = asyncio.create_task(_cancel(services_of(request), job))
    _leaving.add(task)
    task.add_done_callback(_leaving.discard)


async def _cancel(services: Services, job: Job) -> None:
    try:
        await services.jobs.cancel(job.id, job.tenant)
    except (Unavailable, NotFound) as error:
        log.warning("job_of_nobody_not_canceled", job=job.id, reason=str(error))
