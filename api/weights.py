"""What file of weights is the body of a request? Safetensors alone: pickles can run code."""

import asyncio
from dataclasses import dataclass
from hashlib import sha256

from fastapi import HTTPException, Request

CONTENT_TYPE = "application/octet-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A file that is not trusted yet."""

    data: bytes
    sha256: str  #: hex digest


async def read_weights(request: Request) -> Weights:
    """Read the file that is the whole body.

    Raises: HTTPException if it is sent as anything else. Browsers send other types across sites
        without asking, and a page must not store files.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != CONTENT_TYPE:
        raise HTTPException(415, f"send the file itself as the body, as {CONTENT_TYPE}")
    data = await request.body()
    digest = await asyncio.to_thread(lambda: sha256(data).hexdigest())
    return Weights(data=data, sha256=digest)
