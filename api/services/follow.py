"""Follow a job for whoever asked to: its events as they come, or its end alone."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import ClientDisconnect, Request

from api.services.requests import sender_of, services_of
from api.services.services import Services
from core.job import Job, JobEvent
from storage.redis.connect import end


async def follow(
    request: Request, job: Job, after: str = "0", *, previews: bool = False
) -> AsyncGenerator[JobEvent, None]:
    """Yield the events of a job for as long as the key works; raises as `Events.follow`, and:

    Raises:
        Unauthorized: the key was revoked, or has expired, since the stream began.
    """
    services = services_of(request)
    async with aclosing(services.events.follow(job.id, after, previews=previews)) as events:
        async for event in events:
            sender_of(request)
            yield event


async def wait_for_end(services: Services, request: Request, job_id: str, wait_s: float) -> None:
    """Wait for a job's end, but no longer than its client does, nor than this process serves.

    Raises:
        NotFound: no such job.
        StoreUnavailable: Redis cannot serve now.
        ClientDisconnect: nobody waits for the answer any more.
    """
    waits = [
        asyncio.create_task(services.events.wait(job_id, wait_s)),
        asyncio.create_task(_left(request)),
    ]
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for first in done:
            first.result()
        if done == {waits[1]}:
            raise ClientDisconnect
    finally:
        await end(waits)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
