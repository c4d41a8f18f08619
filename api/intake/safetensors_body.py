"""Check that a request body is a safetensors file; pickles can run code and are refused."""

from fastapi import HTTPException, Request

CONTENT_TYPE = "application/octet-stream"


def require_file(request: Request) -> None:
    """Take the file alone, as the whole body.

    Raises: HTTPException if it is sent as anything else. Browsers send other types across sites
        without asking, and a page must not store files.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != CONTENT_TYPE:
        raise HTTPException(415, f"send the file itself as the body, as {CONTENT_TYPE}")
