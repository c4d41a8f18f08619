"""Read the JSON body of a request: a large one in a thread, and one of those at a time."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from fastapi import Request

from api.intake.schemas import Inbound, parse
from api.services.dependencies import services_of

B = TypeVar("B", bound=Inbound)
T = TypeVar("T")

#: Bytes up to which a body is parsed where it is awaited, in less than a millisecond.
SMALL_BYTES: Final = 64 * 2**10


async def read_json(request: Request, kind: type[B]) -> B:
    """Read a body; raises like `api.intake.schemas.parse`."""
    body = await request.body()
    if len(body) <= SMALL_BYTES:
        return parse(kind, body)
    async with services_of(request).parsing:
        return await asyncio.to_thread(parse, kind, body)


async def beside(body: bytes, do: Callable[..., T], *args: object) -> T:
    """Do something with a body, in a thread if it is large."""
    if len(body) <= SMALL_BYTES:
        return do(body, *args)
    return await asyncio.to_thread(do, body, *args)
