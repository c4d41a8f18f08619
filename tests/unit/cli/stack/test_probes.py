import asyncio
from contextlib import asynccontextmanager

import pytest

from cli.stack.ports import HOST
from cli.stack.probes import (
    answers_at_all,
    answers_http,
    answers_ping,
    leads,
    reports,
    takes_jobs,
)

PONG = b"+PONG\r\n"
FULL = b"-MISCONF Errors writing to the AOF file: No space left on device\r\n"
LOADING = b"-LOADING Redis is loading the dataset in memory\r\n"
FLEET = '{"workers": [{"name": "worker-1@host", "models": []}]}'


@asynccontextmanager
async def serving(answer, ping=PONG):
    """Answer every connection with the same bytes, but PING."""

    async def serve(reader, writer):
        line = await reader.readline()
        writer.write(ping if line.startswith(b"PING") else answer)
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def http(status, body):
    head = f"HTTP/1.1 {status} -\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return (head + body).encode()


@pytest.mark.parametrize(
    ("worker", "answer", "ping", "expected"),
    [
        ("worker-1", http(200, FLEET), PONG, True),
        ("worker-2", http(200, FLEET), PONG, False),
        ("worker-2", http(200, FLEET), FULL, None),
        ("worker-1", http(503, "{}"), PONG, None),
        ("worker-1", b"", PONG, None),
    ],
    ids=["it reports", "it does not", "nobody can", "the store is away", "the api is away"],
)
async def test_a_worker_is_judged_by_its_reports_where_there_can_be_any(
    worker, answer, ping, expected
):
    async with serving(answer, ping) as port:
        assert await reports(f"http://{HOST}:{port}", port, worker, {})() is expected


@pytest.mark.parametrize(
    ("answer", "ping", "expected"),
    [
        (b":1\r\n", PONG, True),
        (b":0\r\n", PONG, False),
        (b":0\r\n", FULL, None),
        (LOADING, LOADING, None),
    ],
    ids=["it leads", "it does not", "nobody can", "the store starts"],
)
async def test_upkeep_is_judged_by_its_lead_where_it_can_have_one(answer, ping, expected):
    async with serving(answer, ping) as port:
        assert await leads(port, "upkeep")() is expected


async def test_a_store_answers_or_does_not():
    async with serving(b"") as port:
        assert await answers_ping(port)()
        assert await answers_at_all(port)()
    assert not await answers_ping(port)()
    assert not await answers_at_all(port)()


@pytest.mark.parametrize("ping", [FULL, LOADING], ids=["its disk is full", "it starts"])
async def test_a_store_that_cannot_serve_now_lives_all_the_same(ping):
    async with serving(b"", ping) as port:
        assert not await answers_ping(port)()
        assert await answers_at_all(port)()


async def test_programs_are_not_looked_for_behind_a_proxy(monkeypatch):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", f"http://{HOST}:9")
    async with serving(http(200, FLEET)) as port:
        api = f"http://{HOST}:{port}"
        assert await answers_http(f"{api}/healthz")()
        assert await reports(api, port, "worker-1", {})()
        assert await takes_jobs(api, "worker-1", {})()


@pytest.mark.parametrize(
    ("fleet", "status", "expected"),
    [
        ('{"workers": [{"name": "w@h", "models": []}]}', 200, True),
        ('{"workers": [{"name": "w@h", "models": []}]}', 503, False),
        ('{"workers": [{"name": "other@h", "models": []}]}', 200, False),
        (
            '{"workers": [{"name": "w@h", "models": [], "failures": {"m": "no file"}}]}',
            503,
            True,
        ),
    ],
    ids=["jobs are taken", "not yet", "it is not there", "it can load nothing"],
)
async def test_a_worker_is_ready_whatever_its_models_take(fleet, status, expected):
    async def serve(reader, writer):
        line = await reader.readline()
        writer.write(http(200, fleet) if b"fleet" in line else http(status, "{}"))
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await takes_jobs(f"http://{HOST}:{port}", "w", {})() is expected
