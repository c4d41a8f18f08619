"""Bodies are bounded in bytes and time, all together too; a client that leaves is one line."""

import asyncio

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from api import middleware
from api.middleware import CLIENT_LEFT, RequestScope
from core.errors import TooManyRequests, TooSlow

SCOPE = {"type": "http", "method": "POST", "path": "/v1/jobs", "headers": []}


async def app(scope, receive, send):
    body = await Request(scope, receive).body()
    await Response(str(len(body)))(scope, receive, send)


async def call(scope, *messages):
    """Send these messages, then nothing more; return what was answered."""
    sent, coming = [], list(messages)

    async def receive():
        if not coming:
            await asyncio.Event().wait()
        return coming.pop(0)

    async def send(message):
        sent.append(message)

    await scope(dict(SCOPE), receive, send)
    return sent


def part(body, more=True):
    return {"type": "http.request", "body": body, "more_body": more}


def scope_of(app=app, **changes):
    return RequestScope(app, **({"max_body_bytes": 1000} | changes))


async def test_a_client_that_leaves_in_mid_body_is_one_short_line(logs):
    assert await call(scope_of(), part(b"a"), {"type": "http.disconnect"}) == []
    [line] = logs
    assert (line["event"], line["status"]) == ("request", CLIENT_LEFT)
    assert "exc_info" not in line


async def test_a_body_that_trickles_is_given_up(monkeypatch):
    monkeypatch.setattr(middleware, "BODY_S", 0.02)
    with pytest.raises(TooSlow, match=r"within 0\.02 s"):
        await call(scope_of(), part(b"a"))


async def test_a_request_without_a_body_waits_for_its_client_as_long_as_it_likes(monkeypatch):
    monkeypatch.setattr(middleware, "BODY_S", 0.0)
    left = asyncio.Event()

    async def waits(scope, receive, send):
        await receive()
        assert (await receive())["type"] == "http.disconnect"
        left.set()

    await call(scope_of(waits), part(b"", more=False), {"type": "http.disconnect"})
    assert left.is_set()


async def test_all_bodies_together_are_bounded_and_given_back(monkeypatch):
    monkeypatch.setattr(middleware, "MAX_HELD_BYTES", 1500)
    scope, first, second = scope_of(), part(b"x" * 900), part(b"y" * 900, more=False)
    holding = asyncio.create_task(call(scope, first))
    await asyncio.sleep(0)
    while not scope.held_bytes:
        await asyncio.sleep(0)
    with pytest.raises(TooManyRequests, match="1500 bytes"):
        await call(scope, second)
    assert scope.held_bytes == 900
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    assert scope.held_bytes == 0
    assert (await call(scope, second))[0]["status"] == 200


async def test_a_body_that_goes_to_disk_holds_a_block():
    scope = scope_of(larger={"/v1/jobs": 10 * 2**20})
    most = 0

    async def spools(scope_, receive, send):
        nonlocal most
        async for _ in Request(scope_, receive).stream():
            most = max(most, scope.held_bytes)
        raise ClientDisconnect

    scope.app = spools
    await call(scope, *[part(b"x" * 2**20)] * 5, part(b"", more=False))
    assert most == middleware.SPOOLED_BYTES and scope.held_bytes == 0


async def test_a_path_of_thousands_of_characters_is_cut_in_the_log(client, logs):
    await client.get("/" + "a" * 7000)
    [line] = [each for each in logs if each["event"] == "request"]
    assert len(line["path"]) < 150
