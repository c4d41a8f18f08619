"""Both clients against the whole api over in-memory fakes; a worker makes what is asked for."""

import asyncio

import httpx
import pytest

from atelier_client import AsyncClient, Client
from tests.unit.api.conftest import logs, stack

__all__ = ["logs", "stack"]


class Bridge(httpx.BaseTransport):
    """Lets a thread ask an app that runs on the test's event loop."""

    def __init__(self, app):
        self.loop = asyncio.get_running_loop()
        self.asgi = httpx.ASGITransport(app, raise_app_exceptions=False)

    def handle_request(self, request):
        return asyncio.run_coroutine_threadsafe(self._answer(request), self.loop).result(30)

    async def _answer(self, request):
        sent = httpx.Request(
            request.method, request.url, headers=request.headers, content=request.read()
        )
        response = await self.asgi.handle_async_request(sent)
        return httpx.Response(
            response.status_code, headers=response.headers, content=await response.aread()
        )


class Caller:
    """One of the clients; `ask(lambda client: …)` asks, `gather` takes what it iterates."""

    def __init__(self, kind, app, key=None):
        self.is_async = kind == "asyncio"
        asked = {"url": "http://api.test", "key": key}
        if self.is_async:
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            self.client = AsyncClient(**asked, transport=transport)
        else:
            self.client = Client(**asked, transport=Bridge(app))

    async def ask(self, asking):
        if self.is_async:
            return await asking(self.client)
        return await asyncio.to_thread(asking, self.client)

    async def gather(self, iterating):
        if self.is_async:
            return [each async for each in iterating(self.client)]
        return await asyncio.to_thread(lambda: list(iterating(self.client)))


@pytest.fixture
async def app(stack):
    async with stack.client() as client:
        yield client._transport.app


@pytest.fixture(params=["threads", "asyncio"])
async def caller(request, app):
    return Caller(request.param, app)
