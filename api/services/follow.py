"""Follow a job for whoever asked to: for as long as the key that asked works."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import Request

from api.services.requests import sender_of, services_of
from core.job import Job, JobEvent


async def follow(
    request: Request, job: Job, after: str = "0", *, previews: bool = False
) -> AsyncGenerator[JobEvent, None]:
    """Yield the events of a job as they come; raises as `Events.follow` does, and:

    Raises:
        Unauthorized: the key was revoked, or has expired, since the stream began.
    """
    services = services_of(request)
    async with aclosing(services.events.follow(job.id, after, previews=previews)) as events:
        async for event in events:
            sender_of(request)
            yield event
