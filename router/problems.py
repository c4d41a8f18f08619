"""What the router answers by itself: problems, as the api writes them."""

import re
from typing import Final
from uuid import uuid4

from aiohttp import web

from core.errors import RequestRejected

#: Seconds after which a client may ask again for what is away, or send a body again.
RETRY_AFTER_S: Final = 5

_KINDS: Final = {408: "too-slow", 413: "too-large", 429: "too-many-requests"}
_OPENAI: Final = ("/v1/images/",)
_OPENAI_TOO: Final = re.compile(r"/v1/models(/[^/]*)?")


def problem(path: str, status: int, kind: str, title: str, detail: str) -> web.Response:
    """Say what is wrong, as clients of this path read it."""
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status in (429, 503) else {}
    error = {
        "message": f"{title}: {detail}",
        "type": _type_of(status),
        "param": None,
        "code": kind.replace("-", "_"),
    }
    if path.startswith(_OPENAI):
        return web.json_response({"error": error}, status=status, headers=headers)
    said = {
        "type": f"urn:problem-type:atelier:{kind}",
        "title": title,
        "status": status,
        "detail": detail,
        "instance": path,
        "request_id": uuid4().hex,
        **({"error": error} if _OPENAI_TOO.fullmatch(path) else {}),
    }
    return web.json_response(
        said,
        status=status,
        headers=headers,
        content_type="application/problem+json",
    )


def refusal(path: str, error: RequestRejected) -> web.Response:
    """Say why a body is not taken."""
    return problem(path, error.status, _KINDS[error.status], error.title, str(error))


def _type_of(status: int) -> str:
    """Name whose fault it is, as `api/views/openai_error.py` does."""
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"
