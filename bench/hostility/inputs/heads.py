"""List requests whose heads or framing are too large, too many, too slow or wrong."""

from functools import partial
from itertools import chain

from bench.hostility.input import END, JSON, Input, Known, Pieces, Write, get, head, times

BEGUN = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
KIB, MIB = 2**10, 2**20
OF_HEADERS = "at most 100 headers of at most 32768 bytes"
OF_TARGET = "at most 8192 bytes"
OF_FRAMING = "neither its headers nor its body"


def raw(*pieces: bytes, then: bytes = b"", count: int = 0) -> Write:
    """Write the same for everybody, without a key."""

    def write(_: Known) -> Pieces:
        return chain(pieces, times(then, count))

    return write


def chunked(*pieces: bytes, then: bytes = b"", count: int = 0) -> Write:
    """Write the chunks of a submit."""

    def write(known: Known) -> Pieces:
        begun = head(known, "POST", "/v1/jobs", JSON, "Transfer-Encoding: chunked")
        return chain(begun, [END], pieces, times(then, count))

    return write


def submit(*headers: str, then: bytes = b"", count: int = 0) -> Write:
    """Write a submit with these headers, and a body that need not be what they say."""

    def write(known: Known) -> Pieces:
        return chain(head(known, "POST", "/v1/jobs", JSON, *headers), [END], times(then, count))

    return write


def read(target: str, *headers: str) -> Write:
    """Write a request without a body."""
    return lambda known: get(known, target, *headers)


row = partial(Input, kind="heads")

HEADS = (
    row(
        name="48 MB of headers", pieces=raw(BEGUN, then=b"a: b\r\n" * 2**13, count=1000),
        says=OF_HEADERS,
    ),
    row(
        name="48 MB of headers from eight", pieces=raw(BEGUN, then=b"a: b\r\n" * 2**10, count=1000),
        says=OF_HEADERS, count=8,
    ),
    row(
        name="a value of 48 MB", pieces=raw(BEGUN + b"a: ", then=b"b" * 2**16, count=732),
        says=OF_HEADERS,
    ),
    row(
        name="a name of 10 MB", pieces=raw(BEGUN, then=b"b" * 2**16, count=160), says=OF_HEADERS
    ),
    row(name="101 headers", pieces=raw(BEGUN, b"a: b\r\n" * 101, END), says=OF_HEADERS),
    row(name="33 kB of header", pieces=raw(BEGUN, b"a: " + b"b" * 33_000, END), says=OF_HEADERS),
    row(name="a path of 1 MB", pieces=raw(b"GET /", b"a" * MIB, b" HTTP/1.1\r\n"), says=OF_TARGET),
    row(name="a query of 1 MB", pieces=raw(b"GET /?", b"a=1&" * 2**18), says=OF_TARGET),
    row(
        name="a target without end", pieces=raw(b"GET /", then=b"a" * 2**16, count=320),
        says=OF_TARGET,
    ),
    row(name="a method of 1 MB", pieces=raw(b"G" * MIB, b" / HTTP/1.1\r\n"), says="HTTP/1.1"),
    row(name="a TLS hello", pieces=raw(b"\x16\x03\x01\x02\x00\x01\x00\x01" * 50), says="HTTP/1.1"),
    row(name="HTTP/2", pieces=raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), says="HTTP/1.1"),
    row(name="null bytes in a header", pieces=raw(BEGUN, b"a: \0\0\r\n", END), says="HTTP/1.1"),
    row(
        name="14,000 requests on a connection", pieces=raw((BEGUN + b"\r\n") * 14_000), is_cut=True,
        says="at most 16 requests",
    ),
    row(
        name="a websocket", says="",
        pieces=read("/v1/jobs", "Upgrade: websocket", "Connection: Upgrade"),
    ),
    row(
        name="chunks of a byte", pieces=chunked(then=b"1\r\na\r\n" * 10_000, count=400),
        says=OF_FRAMING,
    ),
    row(
        name="an extension of 10 MB", pieces=chunked(b"1;", then=b"x" * 2**16, count=160),
        says=OF_FRAMING,
    ),
    row(
        name="a trailer of 10 MB", says=OF_FRAMING, is_cut=True,
        pieces=chunked(b"1\r\na\r\n0\r\na: ", then=b"b" * 2**16, count=160),
    ),
    row(
        name="10,000 trailers", says=OF_HEADERS, is_cut=True,
        pieces=chunked(b"1\r\na\r\n0\r\n", then=b"a: b\r\n" * 100, count=100),
    ),
    row(
        name="a body said to have an exabyte", pieces=submit(f"Content-Length: {10**18}"),
        says="at most 8388608 bytes",
    ),
    row(
        name="a length of 1,000 digits", pieces=submit("Content-Length: " + "9" * 1000),
        says="HTTP/1.1",
    ),
    row(
        name="two lengths", pieces=submit("Content-Length: 1", "Content-Length: 2", then=b"{}"),
        says="HTTP/1.1",
    ),
    row(
        name="a negative length", pieces=submit("Content-Length: -1", then=b"{}", count=1),
        says="HTTP/1.1",
    ),
    row(
        name="a body without end",
        pieces=chunked(then=b"10000\r\n" + b" " * 65_536 + b"\r\n", count=900),
        says="at most 8388608 bytes",
    ),
    row(
        name="a body without end, without a key", says="", is_cut=True, hold_s=3.0,
        pieces=raw(
            b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            then=b"10000\r\n" + b" " * 65_536 + b"\r\n", count=900,
        ),
    ),
    row(
        name="an idempotency key of 1 MB", says=OF_HEADERS,
        pieces=submit("Idempotency-Key: " + "k" * MIB, "Content-Length: 2", then=b"{}", count=1),
    ),
    row(
        name="an idempotency key of 10 kB", says="1 to 255",
        pieces=lambda known: [
            *head(
                known, "POST", "/v1/jobs", JSON, "Idempotency-Key: " + "k" * 10_000,
                "Content-Length: 14",
            ),
            END, b'{"prompt":"a"}',
        ],
    ),
    row(name="a key of 30 kB", pieces=read("/v1/jobs", "X-Key: " + "k" * 30_000)),
    row(
        name="ranges beyond a header", says=OF_HEADERS,
        pieces=lambda known: get(known, known.image, "Range: bytes=" + "0-0," * 100_000 + "1-1"),
    ),
    row(
        name="5,000 ranges of a file", says="at most 16 ranges",
        pieces=lambda known: get(known, known.image, "Range: bytes=" + "0-0,2-2," * 2500 + "1-1"),
    ),
    row(name="1,500 parameters", pieces=read("/v1/jobs?" + "limit=7&" * 1000)),
    row(name="a cursor of 7 kB", pieces=read("/v1/jobs?cursor=" + "9" * 7000), says="at most 80"),
    row(
        name="a wait of 1e400", says="wait",
        pieces=lambda k: get(k, f"/v1/jobs/{k.job}?wait=1e400"),
    ),
    row(name="a path of 4,000 parts", pieces=read("/a" * 4000), says="404"),
    row(
        name="a head in drops", pieces=raw(*[BEGUN[at : at + 1] for at in range(40)]), pause_s=1.0,
        says="within 15 seconds", count=50, is_slow=True,
    ),
    row(
        name="a body in drops",
        pieces=submit("Content-Length: 99", then=b" ", count=40), pause_s=1.0,
        says="within 20 s", count=50, is_slow=True,
    ),
    row(
        name="heads that do not end", pieces=raw(BEGUN), hold_s=1.5, count=800, is_cut=True,
    ),
    row(name="connections that say nothing", pieces=raw(), hold_s=1.5, count=1500, is_cut=True),
    row(
        name="10,000 connections of ten addresses", pieces=raw(), hold_s=3.0, count=10_000,
        addresses=10, is_cut=True, says="connections are held",
    ),
    row(
        name="1,200 connections at work", says="connections are held", hold_s=2.0, count=1200,
        is_cut=True,
        pieces=lambda known: [*head(known, "GET", f"/v1/jobs/{known.job}/events"), b"\r\n"],
    ),
    row(
        name="500 long polls", hold_s=2.0, count=500, is_cut=True,
        pieces=lambda known: [*head(known, "GET", f"/v1/jobs/{known.job}?wait=60"), b"\r\n"],
    ),
)  # fmt: skip
