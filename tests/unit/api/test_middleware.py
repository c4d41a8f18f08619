"""Bodies are bounded in bytes and time, all together too; a client that leaves is one line."""

import asyncio
import time

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from api import middleware
from api.middleware import CLIENT_LEFT, RequestScope
from core.bodies import incoming
from core.errors import TooManyRequests, TooSlow

SCOPE = {"type": "http", "method": "POST", "path": "/v1/jobs", "headers": []}


async def app(scope, receive, send):
    body = await Request(scope, receive).body()
    await Response(str(len(body)))(scope, receive, send)


async def call(scope, *messages, host="10.0.0.1"):
    """Send these messages, then nothing more; return what was answered."""
    sent, coming = [], list(messages)

    async def receive():
        if not coming:
            await asyncio.Event().wait()
        return coming.pop(0)

    async def send(message):
        sent.append(message)

    await scope(SCOPE | {"client": (host, 1)}, receive, send)
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
    monkeypatch.setattr(incoming, "BODY_S", 0.02)
    with pytest.raises(TooSlow, match=r"a pause of 0\.02 s"):
        await call(scope_of(), part(b"a"))


async def test_a_request_without_a_body_waits_for_its_client_as_long_as_it_likes(monkeypatch):
    monkeypatch.setattr(incoming, "BODY_S", 0.0)
    left = asyncio.Event()

    async def waits(scope, receive, send):
        await receive()
        assert (await receive())["type"] == "http.disconnect"
        left.set()

    await call(scope_of(waits), part(b"", more=False), {"type": "http.disconnect"})
    assert left.is_set()


async def test_all_bodies_together_are_bounded_and_given_back(monkeypatch):
    monkeypatch.setattr(middleware, "MAX_HELD_BYTES", 2000)
    scope, first, second = scope_of(), part(b"x" * 900), part(b"y" * 900, more=False)
    holding = asyncio.create_task(call(scope, first))
    await asyncio.sleep(0)
    while not scope.held.total_bytes:
        await asyncio.sleep(0)
    with pytest.raises(TooManyRequests, match="2000 bytes"):
        await call(scope, second)
    assert scope.held.total_bytes == 900
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    assert scope.held.total_bytes == 0
    assert (await call(scope, second))[0]["status"] == 200


async def test_who_holds_the_most_that_one_may_leaves_room_for_another(monkeypatch):
    monkeypatch.setattr(middleware, "MAX_HELD_BYTES", 4000)
    scope = scope_of()
    first = [asyncio.create_task(call(scope, part(b"x" * 1000))) for _ in range(3)]
    async with asyncio.timeout(60):
        while scope.held.total_bytes < 3000:
            await asyncio.sleep(0)
    with pytest.raises(TooManyRequests, match="leaves as many to others"):
        await call(scope, part(b"y", more=False))
    assert (await call(scope, part(b"y", more=False), host="10.0.0.2"))[0]["status"] == 200
    assert (await call(scope, part(b"", more=False)))[0]["status"] == 200  # nothing to hold
    for each in first:
        each.cancel()
    await asyncio.gather(*first, return_exceptions=True)
    assert scope.held.total_bytes == 0


async def test_what_came_fast_is_no_credit_for_silence(monkeypatch):
    monkeypatch.setattr(incoming, "BODY_S", 0.05)
    monkeypatch.setattr(incoming, "MIN_RATE", 10)
    began = time.perf_counter()
    with pytest.raises(TooSlow):
        await call(scope_of(), part(b"x" * 900))
    assert 0.05 <= time.perf_counter() - began < 45  # not 90


async def test_a_body_that_goes_to_disk_holds_a_block():
    scope = scope_of(larger={"/v1/jobs": 10 * 2**20})
    most = 0

    async def spools(scope_, receive, send):
        nonlocal most
        async for _ in Request(scope_, receive).stream():
            most = max(most, scope.held.total_bytes)
        raise ClientDisconnect

    scope.app = spools
    await call(scope, *[part(b"x" * 2**20)] * 5, part(b"", more=False))
    assert most == middleware.SPOOLED_BYTES and scope.held.total_bytes == 0


async def test_a_path_of_thousands_of_characters_is_cut_in_the_log(client, logs):
    await client.get("/" + "a" * 7000)
    [line] = [each for each in logs if each["event"] == "request"]
    assert len(line["path"]) < 150
