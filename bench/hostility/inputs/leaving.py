"""List what clients leave behind in logs and queues."""

from functools import partial

from bench.hostility.input import PNG, Input, post
from bench.hostility.inputs.heads import read, submit
from bench.parts.hostile_files import png

ESCAPES = "%1b%5b2J%0d%0a%9b31m%e2%80%ae"

row = partial(Input, kind="what is left")

LEAVING = (
    row(
        name="200 clients that leave in mid-body", count=200, hold_s=1.0, is_cut=True,
        pieces=submit("Content-Length: 1000", then=b"{", count=1),
    ),
    row(name="escapes in a path", pieces=read("/v1/jobs/" + ESCAPES), says="404"),
    row(name="escapes in a query", pieces=read("/v1/jobs?status=" + ESCAPES), says="status"),
    row(
        name="escapes in a method", says="HTTP/1.1",
        pieces=lambda _: [b"\x1b[2J / HTTP/1.1\r\n\r\n"],
    ),
    row(
        name="escapes in a name",
        pieces=lambda known: post(known, "/v1/applications", b'{"name":"\\u001b[2J"}'),
        says="name",
    ),
    row(
        name="60 templates to record", count=60,
        pieces=lambda known: post(known, "/v1/templates", png(side=64), PNG),
    ),
)  # fmt: skip
