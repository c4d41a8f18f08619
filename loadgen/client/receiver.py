"""Receive webhooks of jobs on loopback."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from secrets import token_urlsafe

import msgspec
from aiohttp import web

from loadgen.client.observed import ObservedJob


class _Payload(msgspec.Struct):
    data: ObservedJob


class Receiver:
    """Follows jobs by what the service posts here when they have ended."""

    body: Mapping[str, object] = {}

    def __init__(self) -> None:
        self._ended: dict[str, asyncio.Future[ObservedJob]] = {}

    async def follow(self, job: ObservedJob, within_s: float) -> ObservedJob:
        """Wait for the call; it may have come before the answer to the submit was read."""
        try:
            return await self._future(job.id)
        finally:
            del self._ended[job.id]

    async def take(self, request: web.Request) -> web.Response:
        """Take one call."""
        try:
            job = msgspec.json.decode(await request.read(), type=_Payload).data
        except msgspec.DecodeError:
            return web.Response(status=400)
        future = self._future(job.id)
        if not future.done():
            future.set_result(job)
        return web.Response(status=204)

    def _future(self, job_id: str) -> "asyncio.Future[ObservedJob]":
        if job_id not in self._ended:
            self._ended[job_id] = asyncio.get_running_loop().create_future()
        return self._ended[job_id]


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """Listen on a free port of loopback, under a path that nobody can guess."""
    receiver = Receiver()
    path = f"/{token_urlsafe(16)}"
    app = web.Application()
    app.router.add_post(path, receiver.take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}{path}"
        receiver.body = {"webhook": {"url": url, "events": ["completed"]}}
        yield receiver
    finally:
        await runner.cleanup()
