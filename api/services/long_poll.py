"""Long polling: wait until the job ends, time is up, the client leaves or the server stops."""

import asyncio

from starlette.requests import ClientDisconnect, Request

from api.services.services import Services
from storage.redis.connect import end


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
