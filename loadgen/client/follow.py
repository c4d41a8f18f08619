"""Follow a job to its end: by polling, long polls, or the event stream."""

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Protocol

import aiohttp

from loadgen.client.observed import ObservedJob, get_job, read_job
from loadgen.client.session import POLL_S

#: Seconds between two questions of a client that polls.
EVERY_S = 1.0
#: Seconds before a stream that ended early is opened again.
AGAIN_S = 0.2


class Follower(Protocol):
    """A way to learn that a job has ended."""

    @property
    def body(self) -> Mapping[str, object]:
        """What it adds to the body of a request."""
        ...

    async def follow(self, job: ObservedJob, within_s: float) -> ObservedJob:
        """Wait until a job has ended; its caller stops waiting after so many seconds.

        Raises:
            aiohttp.ClientError: the service cannot be reached, or refuses.
        """
        ...


class LongPoll:
    """Asks with patience: one request in flight a job."""

    body: Mapping[str, object] = {}

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http

    async def follow(self, job: ObservedJob, within_s: float) -> ObservedJob:
        """Ask until it has ended."""
        end_s = time.monotonic() + within_s
        while not job.status.is_terminal:
            left_s = max(0.0, end_s - time.monotonic())
            job = await get_job(self._http, job.id, min(POLL_S, left_s))
        return job


class Poll:
    """Asks once a second."""

    body: Mapping[str, object] = {}

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http

    async def follow(self, job: ObservedJob, within_s: float) -> ObservedJob:
        """Ask until it has ended."""
        while not job.status.is_terminal:
            await asyncio.sleep(EVERY_S)
            job = await get_job(self._http, job.id)
        return job


class EventStream:
    """Reads the stream of a job; one that ends early is resumed after its last event."""

    body: Mapping[str, object] = {}

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http

    async def follow(self, job: ObservedJob, within_s: float) -> ObservedJob:
        """Read until `done` comes."""
        last = ""
        while True:
            async with self._http.get(
                f"/v1/jobs/{job.id}/events", headers={"Last-Event-ID": last} if last else {}
            ) as answer:
                answer.raise_for_status()
                if answer.status == 204:  # it has ended, and the last event was seen
                    return await get_job(self._http, job.id)
                async for name, data, event_id in events(answer.content):
                    last = event_id or last
                    if name == "done":
                        return read_job(data)
            await asyncio.sleep(AGAIN_S)


async def events(lines: AsyncIterable[bytes]) -> AsyncIterator[tuple[str, str, str]]:
    """Split a stream of server-sent events into name, data and id."""
    fields: dict[str, str] = {}
    async for raw in lines:
        line = raw.decode().rstrip("\r\n")
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        elif "data" in fields:
            yield fields.get("event", "message"), fields["data"], fields.get("id", "")
            fields = {}
