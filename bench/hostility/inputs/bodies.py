"""List bodies with too many values, too deep, too long or not what they are said to be."""

import zlib
from functools import partial

from bench.hostility.input import JSON, Input, Write, post

MIB = 2**20
MANY = "commas and opening brackets; at most 20000"
SUBMIT, APPLICATION = "/v1/jobs", "/v1/applications"


def job(rest: bytes, prompt: bytes = b"a") -> Write:
    """Submit a prompt and more."""
    body = b'{"prompt":"' + prompt + b'",' + rest + b"}"
    return lambda known: post(known, SUBMIT, body)


def sent(body: bytes, target: str = SUBMIT, kind: str = JSON, *headers: str) -> Write:
    """Send a body as it is."""
    return lambda known: post(known, target, body, kind, *headers)


def listed(name: bytes, value: bytes, count: int) -> Write:
    """Submit a list of the same values."""
    return job(b'"' + name + b'":[' + b",".join([value] * count) + b"]")


def pairs(count: int, key: str = "x{}") -> bytes:
    """Write members of an object."""
    return b",".join(f'"{key.format(at)}":1'.encode() for at in range(count))


row = partial(Input, kind="bodies")

BODIES = (
    row(name="600,000 controls", pieces=listed(b"controls", b"{}", 600_000), says=MANY),
    row(name="6,000 controls", pieces=listed(b"controls", b"{}", 6000), says="at most 16"),
    row(name="600,000 LoRAs", pieces=listed(b"loras", b"{}", 600_000), says=MANY),
    row(name="400 LoRAs", pieces=listed(b"loras", b'{"id":"a"}', 400), says="at most 8"),
    row(
        name="17 controls", says="at most 16",
        pieces=listed(b"controls", b'{"id":"edges","image":"data:,"}', 17),
    ),
    row(
        name="500,000 events", says=MANY,
        pieces=job(b'"webhook":{"url":"a","events":[' + b'"started",' * 500_000 + b'""]}'),
    ),
    row(
        name="500,000 models of an application", says=MANY,
        pieces=sent(b'{"name":"a","models":[' + b'"x",' * 500_000 + b'"x"]}', APPLICATION),
    ),
    row(
        name="101 models of an application", says="at most 100",
        pieces=sent(b'{"name":"a","models":[' + b'"x",' * 100 + b'"x"]}', APPLICATION),
    ),
    row(name="300,000 metadata", pieces=job(b'"metadata":{' + pairs(300_000) + b"}"), says=MANY),
    row(name="300,000 unknown fields", pieces=job(pairs(300_000)), says=MANY),
    row(name="15,000 unknown fields", pieces=job(pairs(15_000)), says="at most 1000"),
    row(name="500,000 times a field", pieces=job(pairs(500_000, "seed")), says=MANY),
    row(name="4 million numbers", pieces=listed(b"seed", b"0", 4_000_000), says=MANY),
    row(name="a list a million deep", pieces=sent(b'{"seed":' + b"[" * MIB), says=MANY),
    row(name="an object 19,000 deep", pieces=sent(b'{"a":' * 19_000), says="recursion limit"),
    row(
        name="a number of 8 million digits", says="out of range",
        pieces=job(b'"seed":' + b"9" * 8_000_000),
    ),
    row(name="1e400 and NaN", pieces=job(b'"guidance":1e400,"strength":NaN'), says="guidance"),
    row(name="a prompt of 8 MB", pieces=job(b'"n":1', b"a" * 8_000_000), says="at most 100000"),
    row(name="a prompt of 90 kB", pieces=job(b'"n":1', b"a" * 90_000), says="at most 2000"),
    row(
        name="a prompt of 1.3 million escapes", says="at most 100000",
        pieces=job(b'"n":1', b"\\u0061" * 1_300_000),
    ),
    row(name="a word of 2,000 letters", pieces=job(b'"n":1', b"a" * 2000), says="tokens"),
    row(
        name="a word of 2,000 emoji", says="tokens",
        pieces=job(b'"n":1', "\U0001f469\u200d".encode() * 1000),
    ),
    row(name="2,000 accents", pieces=job(b'"n":1', b"a" + "\u0301".encode() * 1999), says="tokens"),
    row(name="half a character", pieces=job(b'"n":1', b"\\ud800"), says="hex escape"),
    row(name="a null in a prompt", pieces=job(b'"n":1', b"\\u0000"), says="U+0000"),
    row(
        name="8 MB that are no UTF-8", says="body",
        pieces=sent(b'{"prompt":"' + b"\xff" * 8_000_000),
    ),
    row(name="a body of 20 MB", pieces=sent(b" " * 20 * MIB), says="at most 8388608 bytes"),
    row(
        name="a picture of 8 MB that is no base64", says="no valid base64",
        pieces=job(b'"task":"edit","template":"data:;base64,' + b"!" * 8_000_000 + b'","mask":"a"'),
    ),
    row(
        name="a URL of 1 MB", says="at most 2048",
        pieces=job(b'"webhook":{"url":"https://' + b"a" * MIB + b'"}'),
    ),
    row(
        name="a template of 8 MB", says="edit",
        pieces=job(b'"template":"' + b"a" * 8_000_000 + b'"'),
    ),
    row(name="a model of 1 MB", pieces=job(b'"model":"' + b"a" * MIB + b'"'), says="at most 200"),
    row(
        name="a form of 100,000 parts", says="Invalid JSON",
        pieces=sent(
            b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' * 100_000, SUBMIT,
            "Content-Type: multipart/form-data; boundary=b",
        ),
    ),
    row(
        name="a deflated 200 MB", says="body",
        pieces=sent(zlib.compress(b" " * 200 * MIB), SUBMIT, JSON, "Content-Encoding: gzip"),
    ),
    row(
        name="forty bodies of 8 MB", count=40, says="",
        pieces=job(b'"task":"edit","template":"data:;base64,' + b"A" * 8_000_000 + b'","mask":"a"'),
    ),
)  # fmt: skip
