"""What the router answers by itself: problems, as the api writes them."""

from typing import Final

from aiohttp import web

#: Seconds after which a client may ask again for what is away.
RETRY_AFTER_S: Final = 5

_OPENAI: Final = ("/v1/images/",)


def problem(path: str, status: int, kind: str, title: str, detail: str) -> web.Response:
    """Say what is wrong, as clients of this path read it."""
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else {}
    if path.startswith(_OPENAI):
        error = {"message": f"{title}: {detail}", "type": "server_error", "code": kind}
        return web.json_response({"error": error}, status=status, headers=headers)
    return web.json_response(
        {"type": f"/problems/{kind}", "title": title, "status": status, "detail": detail},
        status=status,
        headers=headers,
        content_type="application/problem+json",
    )
