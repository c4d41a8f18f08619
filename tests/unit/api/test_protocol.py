"""Heads of requests are bounded in bytes, in number and in time, whoever sends them."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import uvicorn
from uvicorn.server import ServerState

from api import protocol
from api.protocol import LimitedProtocol
from api.protocol_faults import (
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_OVERHEAD_BYTES,
    MAX_PIPELINED,
    MAX_TARGET_BYTES,
)

GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


async def app(scope, receive, send):
    """Answer with the size of the body."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    body = str(size).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def unread(scope, receive, send):
    """Answer without reading the body."""
    await send(
        {"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]}
    )
    await send({"type": "http.response.body", "body": b""})


class Serving:
    """A server over the protocol, and connections to it."""

    def __init__(self, port, state):
        self.port, self.state = port, state

    async def send(self, *pieces):
        """Send, as far as it is taken, and read all that is answered until the other side ends."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        reading = asyncio.create_task(reader.read())
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        try:
            return await asyncio.wait_for(reading, 60)
        except ConnectionError:
            return b""
        finally:
            writer.close()


@asynccontextmanager
async def serving(app=app):
    config, state = uvicorn.Config(app, ws="none", log_config=None), ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: LimitedProtocol(config, state, {}), "127.0.0.1", 0)
    try:
        yield Serving(server.sockets[0].getsockname()[1], state)
    finally:
        server.close()
        for each in list(state.connections):
            each.transport.abort()
        await asyncio.sleep(0)


END = b"Connection: close\r\n\r\n"

REFUSED = {
    "a long target": (
        414,
        MAX_TARGET_BYTES,
        [b"GET /" + b"a" * MAX_TARGET_BYTES + b" HTTP/1.1\r\n"],
    ),
    "a target without end": (414, MAX_TARGET_BYTES, [b"GET /", *[b"a" * 2**16] * 40]),
    "a long query": (414, MAX_TARGET_BYTES, [b"GET /?" + b"a=1&" * 250_000]),
    "many headers": (431, MAX_HEADERS, [GET, b"a: b\r\n" * (MAX_HEADERS + 1), END]),
    "long headers": (431, MAX_HEADER_BYTES, [GET, b"a: " + b"b" * MAX_HEADER_BYTES + b"\r\n", END]),
    "a value without end": (431, MAX_HEADER_BYTES, [GET + b"a: ", *[b"b" * 2**16] * 40]),
    "a name without end": (431, MAX_HEADER_BYTES, [GET, *[b"b" * 2**16] * 40]),
    "48 MB of headers": (431, MAX_HEADERS, [GET, *[b"a: b\r\n" * 2**15] * 244]),
    "no HTTP": (400, "HTTP/1.1", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 50]),
    "HTTP/2": (400, "HTTP/1.1", [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_is_beyond_a_limit_is_refused_with_the_limit(case):
    status, limit, pieces = REFUSED[case]
    async with serving() as server:
        answer = await server.send(*pieces)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer[:200]
    assert str(limit).encode() in answer and b"application/problem+json" in answer


@pytest.mark.parametrize(
    "body",
    [
        [b"1;" + b"x" * 2**16, *[b"x" * 2**16] * 3],
        [b"1\r\na\r\n" * 50_000],
        [b"1\r\na\r\n0\r\na: ", *[b"b" * 2**16] * 4],
        [b"0\r\n" + b"a: b\r\n" * 1000],
    ],
    ids=["extensions", "chunks of a byte", "a trailer without end", "many trailers"],
)
async def test_a_chunked_body_is_mostly_body(body):
    async with serving() as server:
        answer = await server.send(CHUNKED, *body)
    assert not answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("size", [6, 100, 70_000])
async def test_a_large_body_in_chunks_is_taken(size):
    chunk = f"{size:x}\r\n".encode() + b"x" * size + b"\r\n"
    count = 3 * MAX_OVERHEAD_BYTES // size + 10
    async with serving() as server:
        head = POST + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        answer = await server.send(head, chunk * count, b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(str(size * count).encode())


async def test_requests_behind_one_another_are_answered_in_order():
    bodies = [b"x" * 100_000, b"", b"y" * 200_000, b"z"]
    sent = b"".join(
        POST + f"Content-Length: {len(each)}\r\n".encode() + b"\r\n" + each for each in bodies
    )
    async with serving() as server:
        answer = await server.send(sent, POST + b"Content-Length: 0\r\n" + END)
    found = [part.rpartition(b"\r\n\r\n")[2] for part in answer.split(b"HTTP/1.1 200 OK")[1:]]
    assert found == [b"100000", b"0", b"200000", b"1", b"0"]


async def test_thousands_of_requests_behind_one_another_are_not_begun():
    begun = 0

    async def counting(scope, receive, send):
        nonlocal begun
        begun += 1
        await app(scope, receive, send)

    async with serving(counting) as server:
        await server.send((GET + b"\r\n") * 14_000)
    assert begun <= MAX_PIPELINED + 1


async def test_a_head_that_does_not_end_in_time_is_refused(monkeypatch):
    monkeypatch.setattr(protocol, "HEAD_S", 0.05)
    async with serving() as server:
        for begun in ([], [b"GET / HT"], [GET, b"a: b\r\n"]):
            assert (await server.send(*begun)).startswith(b"HTTP/1.1 408")


async def test_an_answered_body_that_does_not_end_ends_its_connection(monkeypatch):
    monkeypatch.setattr(protocol, "LINGER_S", 0.05)
    async with serving(unread) as server:
        answer = await server.send(POST + b"Content-Length: 9\r\n\r\nabc")
    assert answer.startswith(b"HTTP/1.1 401")


async def test_a_client_that_is_answered_in_mid_body_reads_why_though_it_closes_then():
    head = POST + b"Connection: close\r\nContent-Length: 8000000\r\n\r\n"
    async with serving(unread) as service:
        sending = (service.send(head, *[b"a" * 2**16] * 122) for _ in range(20))
        answers = await asyncio.gather(*sending)
    assert {answer[:12] for answer in answers} == {b"HTTP/1.1 401"}


async def much(scope, receive, send):
    """Answer with more than there is room for on the way."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"a" * 2**25})


async def test_a_client_that_does_not_read_its_answer_is_left(monkeypatch):
    monkeypatch.setattr(protocol, "UNREAD_S", 0.05)
    async with serving(much) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
        writer.write(GET + b"\r\n")
        assert await reader.read(1)  # and no more
        async with asyncio.timeout(60):
            while server.state.connections:
                await asyncio.sleep(0.01)
        writer.close()


async def test_a_client_that_reads_slowly_is_not_left():
    async with serving(much) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=2**16)
        writer.write(GET + b"\r\n")
        assert await reader.read(1)
        [connection] = server.state.connections
        before = left = connection.transport.get_write_buffer_size()
        while left == before:
            assert await reader.read(2**18)
            await asyncio.sleep(0.01)
            left = connection.transport.get_write_buffer_size()
        connection._leave_unless_read(before)  # as when the clock that then ran out was set
        assert not connection.transport.is_closing()
        writer.close()


async def test_connections_that_do_nothing_make_room(monkeypatch):
    monkeypatch.setattr(protocol, "MAX_OF_CLIENT", 3)
    async with serving() as server:
        opened = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(6)]
        assert (await server.send(POST + b"Content-Length: 2\r\n" + END + b"ab")).endswith(b"2")
        assert len(server.state.connections) <= 3
        for _, writer in opened:
            writer.close()


async def test_a_client_whose_connections_are_all_at_work_gets_no_more(monkeypatch):
    monkeypatch.setattr(protocol, "MAX_OF_CLIENT", 2)
    async with serving() as server:
        opened = []
        for _ in range(2):
            opened.append(await asyncio.open_connection("127.0.0.1", server.port))
            opened[-1][1].write(POST + b"Content-Length: 9\r\n\r\nabc")
        while sum(each.cycle is not None for each in server.state.connections) < 2:
            await asyncio.sleep(0.001)
        answer = await server.send(b"")
        assert answer.startswith(b"HTTP/1.1 429") and b"at most 2000 connections" in answer
        assert b"\r\nRetry-After: 1\r\n" in answer
        for _, writer in opened:
            writer.close()
