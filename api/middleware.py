"""Give every request an id, a bounded body in bounded time, and a line in the access log.

Pure ASGI: a wrapper of `receive` and `send`, no task and no buffer of its own.
"""

import re
import time
from collections.abc import Mapping
from typing import Final
from uuid import uuid4

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.bodies.incoming import BodyClock, HeldBytes
from core.errors import TooLarge
from core.log import begin_request, bind, get_logger
from core.text import shorten

#: What a client may call its request; anything else gets an id of ours.
REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,128}")

#: Methods whose bodies nobody reads.
NO_BODY: Final = frozenset({"GET", "HEAD"})

#: Asked for every few seconds by machines.
QUIET: Final = frozenset({"/healthz", "/readyz", "/metrics", "/v1/fleet", "/v1/plan"})

#: Bytes of bodies that are held at a time, and of one that goes to disk as it comes.
MAX_HELD_BYTES: Final = 64 * 2**20
SPOOLED_BYTES: Final = 2**20
#: How the log says that a client left before its answer, as nginx does.
CLIENT_LEFT: Final = 499

log = get_logger("api.access")


class RequestScope:
    """Give each request an id, bound its body, and log how it ended. Never logs a query string."""

    def __init__(
        self, app: ASGIApp, *, max_body_bytes: int, larger: Mapping[str, int] | None = None
    ) -> None:
        """Wrap an app; `larger` are limits of its own for some paths that spool, in bytes."""
        self.app = app
        self.max_body_bytes = max_body_bytes
        self.larger = larger or {}
        #: of all bodies that came and whose requests are not over
        self.held = HeldBytes(MAX_HELD_BYTES, max_body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = scope["request_id"] = _request_id(scope)
        begin_request()
        if (job := _job_of(scope["path"])) is not None:
            bind(job=job)
        began, status = time.perf_counter(), 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.update(scope.get("answer_headers", {}))  # of what routes said beside
            await send(message)

        body = _Body(self, self.larger.get(scope["path"]), scope, receive)
        try:
            await self.app(scope, body.receive, answer)
        except ClientDisconnect:
            status = CLIENT_LEFT
        finally:
            body.release()
            write = log.debug if scope["path"] in QUIET else log.info
            write(
                "request",
                method=scope["method"],
                path=shorten(scope["path"]),
                status=status,
                seconds=round(time.perf_counter() - began, 4),
                request_id=request_id,
            )


class _Body:
    """The body of one request, counted and timed as it comes."""

    def __init__(
        self, among: RequestScope, spooled: int | None, scope: Scope, receive: Receive
    ) -> None:
        """Count a body; `spooled` is the limit of one that goes to disk."""
        self._among = among
        self._receive = receive
        self._limit = among.max_body_bytes if spooled is None else spooled
        self._most_held = self._limit if spooled is None else SPOOLED_BYTES
        self._declared = _declared_length(scope)
        self._client = _address(scope)
        self._clock = BodyClock()
        self._taken = 0
        self._held_bytes = 0
        self._has_ended = scope["method"] in NO_BODY

    async def receive(self) -> Message:
        """Take what comes next; a declared length is only a reason to refuse earlier.

        Raises: TooLarge, TooSlow; TooManyRequests while others' bodies fill the memory for them.
        """
        if self._has_ended:  # what comes now is that the client has left: there is no hurry
            return await self._receive()
        self._check(self._declared)
        message = await self._clock.wait_for(self._receive())
        self._has_ended = not message.get("more_body", False)
        size = len(message.get("body", b""))
        self._clock.add(size)
        self._taken += size
        self._check(self._taken)
        self._hold()
        return message

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self._limit:
            raise TooLarge(f"the body may have at most {self._limit} bytes")

    def _hold(self) -> None:
        more = min(self._taken, self._most_held) - self._held_bytes
        self._among.held.hold(self._client, more)
        self._held_bytes += more

    def release(self) -> None:
        """Give back what is held of it."""
        self._among.held.release(self._client, self._held_bytes)
        self._held_bytes = 0


def _job_of(path: str) -> str | None:
    match path.split("/"):
        case ["", "v1", "jobs", job, *_]:
            return shorten(job)
    return None


def _header(scope: Scope, name: bytes) -> bytes:
    return next((value for key, value in scope["headers"] if key == name), b"")


def _request_id(scope: Scope) -> str:
    given = _header(scope, b"x-request-id")
    return given.decode() if REQUEST_ID.fullmatch(given) else uuid4().hex


def _address(scope: Scope) -> str:
    """Tell where a request comes from: a trusted proxy's word is in it by now."""
    client = scope.get("client")
    return client[0] if client else ""


def _declared_length(scope: Scope) -> int:
    value = _header(scope, b"content-length")
    return int(value[:20]) if value.isdigit() else 0
