"""What wraps every request: an id, a body limit that holds while streaming, and an access log.

Pure ASGI: a wrapper of `receive` and `send`, no task and no buffer of its own.
"""

import re
import time
from collections.abc import Mapping
from typing import Final
from uuid import uuid4

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.errors import TooLarge
from core.log import get_logger

#: What a client may call its request; anything else gets an id of ours.
REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,128}")

#: Asked for every few seconds by machines.
QUIET: Final = frozenset({"/healthz", "/readyz", "/metrics", "/v1/fleet", "/v1/plan"})

log = get_logger("api.access")


class RequestScope:
    """Give each request an id, bound its body, and log how it ended. Never logs a query string."""

    def __init__(
        self, app: ASGIApp, *, max_body_bytes: int, larger: Mapping[str, int] | None = None
    ) -> None:
        """Wrap an app; `larger` are limits of its own for some paths, in bytes."""
        self.app = app
        self.max_body_bytes = max_body_bytes
        self.larger = larger or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = scope["request_id"] = _request_id(scope)
        began, status = time.perf_counter(), 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                headers.setdefault("X-Content-Type-Options", "nosniff")
            await send(message)

        try:
            await self.app(scope, self._bounded(scope, receive), answer)
        finally:
            write = log.debug if scope["path"] in QUIET else log.info
            write(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=status,
                seconds=round(time.perf_counter() - began, 4),
                request_id=request_id,
            )

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        """Count the body as it arrives; a declared length is only a reason to refuse earlier."""
        limit = self.larger.get(scope["path"], self.max_body_bytes)
        taken, declared = 0, _declared_length(scope)

        async def bounded() -> Message:
            nonlocal taken
            if declared > limit:
                raise TooLarge(f"the body may have at most {limit} bytes")
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > limit:
                raise TooLarge(f"the body may have at most {limit} bytes")
            return message

        return bounded


def _header(scope: Scope, name: bytes) -> bytes:
    return next((value for key, value in scope["headers"] if key == name), b"")


def _request_id(scope: Scope) -> str:
    given = _header(scope, b"x-request-id")
    return given.decode() if REQUEST_ID.fullmatch(given) else uuid4().hex


def _declared_length(scope: Scope) -> int:
    value = _header(scope, b"content-length")
    return int(value[:20]) if value.isdigit() else 0
