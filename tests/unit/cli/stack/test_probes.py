import asyncio
from contextlib import asynccontextmanager

import pytest

from cli.stack.ports import HOST
from cli.stack.probes import answers_ping, leads, reports, takes_jobs

FLEET = '{"workers": [{"name": "worker-1@host", "models": []}]}'


@asynccontextmanager
async def serving(answer):
    """Answer every connection with the same bytes."""

    async def serve(reader, writer):
        await reader.readline()
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def http(status, body):
    head = f"HTTP/1.1 {status} -\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return (head + body).encode()


@pytest.mark.parametrize(
    ("worker", "answer", "expected"),
    [
        ("worker-1", http(200, FLEET), True),
        ("worker-2", http(200, FLEET), False),
        ("worker-1", http(503, "{}"), None),
        ("worker-1", b"", None),
    ],
    ids=["it reports", "it does not", "the store is away", "the api is away"],
)
async def test_a_worker_is_judged_by_its_reports_where_they_can_be_read(worker, answer, expected):
    async with serving(answer) as port:
        assert await reports(f"http://{HOST}:{port}", worker, {})() is expected


@pytest.mark.parametrize(
    ("answer", "expected"), [(b":1\r\n", True), (b":0\r\n", False), (b"-LOADING\r\n", None)]
)
async def test_upkeep_is_judged_by_its_lead_where_it_can_be_read(answer, expected):
    async with serving(answer) as port:
        assert await leads(port, "upkeep")() is expected


async def test_a_store_answers_or_does_not():
    async with serving(b"+PONG\r\n") as port:
        assert await answers_ping(port)()
    assert not await answers_ping(port)()


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
