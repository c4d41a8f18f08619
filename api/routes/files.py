"""Serve images of the directory store by signed URL: `/files/...`."""

import re
import time
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from starlette.responses import (
    FileResponse,
    MalformedRangeHeader,
    RangeNotSatisfiable,
    Response,
)

from api.services.requests import services_of
from api.views.responses import Problem
from core.errors import Forbidden
from core.request.output import OutputFormat
from storage.objects.directory import DirectoryStore

#: Ranges of one request: each is read, and sent with a head of its own.
MAX_RANGES = 16

#: What is served, by the end of its key; anything else is a download.
TYPES = {f".{each.ending}": each.content_type for each in OutputFormat}

router = APIRouter(tags=["files"])


class SentFile(FileResponse):
    """A file, whole or in parts; the framework answers for bad ranges in plain text, we do not."""

    @classmethod
    def _parse_range_header(cls, http_range: str, file_size: int) -> list[tuple[int, int]]:
        if http_range.count(",") >= MAX_RANGES:
            raise HTTPException(416, f"at most {MAX_RANGES} ranges of a file are sent at a time")
        try:
            return super()._parse_range_header(http_range, file_size)
        except MalformedRangeHeader as error:
            raise HTTPException(400, error.content) from error
        except RangeNotSatisfiable as error:
            size = {"Content-Range": f"bytes */{error.max_size}"}
            raise HTTPException(416, f"the file has {error.max_size} bytes", size) from error


@router.head("/files/{key:path}", include_in_schema=False)
@router.get(
    "/files/{key:path}",
    response_class=FileResponse,
    summary="Fetch an image by its signed URL",
    responses={
        403: {"model": Problem, "description": "The signature is wrong or has expired"},
        404: {"model": Problem, "description": "The image is gone"},
        416: {"model": Problem, "description": "The range lies beyond the image"},
    },
)
async def fetch(
    request: Request,
    key: str,
    expires: Annotated[str, Query(max_length=200)] = "",
    signature: Annotated[str, Query(max_length=200)] = "",
    epoch: Annotated[str, Query(max_length=10)] = "0",
) -> Response:
    """Serve one file, whole or a range of it. The signature is the only key to it."""
    services = services_of(request)
    objects = services.objects
    if not isinstance(objects, DirectoryStore):
        raise HTTPException(404, "images are served by the object store itself")
    until = _number(expires, "the URL says not until when it is signed")
    signed_in = _number(epoch, "the URL says not in which epoch it was signed")
    least = services.tenants.terms_of_key(key).url_epoch
    path = objects.verify(key, until, signature, signed_in, least)
    is_image = path.suffix in TYPES
    return SentFile(
        path,
        media_type=TYPES.get(path.suffix, "application/octet-stream"),
        content_disposition_type="inline" if is_image else "attachment",
        filename=path.name,
        headers={
            "Cache-Control": f"private, max-age={max(0, int(until - time.time()))}, immutable",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "Cross-Origin-Resource-Policy": "cross-origin",
        },
    )


def _number(said: str, fault: str) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", said):
        raise Forbidden(fault)
    return int(said)
