"""The page for people at `/`: files that `make page` built, each under a name with its hash."""

import gzip
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from typing import Final

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import HTMLResponse, Response

from core.settings import ObjectBackend, Settings

BUILT: Final = files("api") / "page"
#: A name says what is in it, so that whoever has it need not ask again.
FOR_EVER: Final = "public, max-age=31536000, immutable"
#: Of files that mimetypes does not know on every machine.
TYPES: Final = {".woff2": "font/woff2", ".md": "text/plain; charset=utf-8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One file that the page loads."""

    content: bytes
    packed: bytes | None  #: the same under gzip, where that makes it smaller
    media_type: str

    def answer(self, accepted: str) -> Response:
        """Answer with it, as a client that accepts these encodings reads it."""
        headers = {"Cache-Control": FOR_EVER, "Vary": "Accept-Encoding"}
        if self.packed is None or "gzip" not in accepted:
            return Response(self.content, headers=headers, media_type=self.media_type)
        headers["Content-Encoding"] = "gzip"
        return Response(self.packed, headers=headers, media_type=self.media_type)


def router_of(settings: Settings) -> APIRouter:
    """Make the routes of the page: what it may load beside its own is where the images are."""
    router = APIRouter(include_in_schema=False)
    headers = _headers(settings)

    @router.get("/")
    async def index() -> Response:
        """Serve the page; it names the assets of today, so nobody keeps it unasked."""
        return HTMLResponse(_html(), headers=headers)

    @router.get("/assets/{name}")
    async def asset(request: Request, name: str) -> Response:
        """Serve what the page loads."""
        found = _assets().get(name)
        if found is None:
            raise HTTPException(404, "the page has no such part: load it again")
        return found.answer(request.headers.get("Accept-Encoding", ""))

    return router


@cache
def _html() -> str:
    return (BUILT / "index.html").read_text("utf-8")


@cache
def _assets() -> Mapping[str, Asset]:
    return {
        each.name: _asset(each.name, each.read_bytes()) for each in (BUILT / "assets").iterdir()
    }


def _asset(name: str, content: bytes) -> Asset:
    packed = gzip.compress(content, mtime=0)
    is_smaller = len(packed) < 0.9 * len(content)
    return Asset(
        content=content, packed=packed if is_smaller else None, media_type=_media_type(name)
    )


def _media_type(name: str) -> str:
    ending = PurePath(name).suffix
    return TYPES.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"


def _headers(settings: Settings) -> dict[str, str]:
    images = ""
    if settings.object_backend is ObjectBackend.S3:
        images = f" http{'s' if settings.s3_is_secure else ''}://{settings.s3_endpoint}"
    policy = (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "font-src 'self'",
        f"img-src 'self' data: blob:{images}",
        f"connect-src 'self'{images}",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
    return {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": "; ".join(policy),
        "Referrer-Policy": "same-origin",
    }
