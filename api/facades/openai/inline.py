"""Images in answers themselves: one of each is in memory, and all that are have bounded room.

Who reads slowly holds an answer for hours, and the images of a finished job are asked for with its
key as often as one likes.
"""

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, Final

import msgspec
from fastapi import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from api.facades.openai.views import created_at, described
from api.services.requests import idempotency_key, services_of
from api.services.services import LARGEST_ANSWER_BYTES, Services
from api.views.rate_limit import SAID
from core.errors import TooManyRequests
from core.job import Job

#: Bytes of an image that are written down at a time: a multiple of 3, as base64 has it.
PIECE_BYTES: Final = 3 * 2**14
NO_ROOM: Final = (
    "as many images are on their way as there is room for: GET /v1/jobs/{} tells where those of "
    "this job are; where it has an Idempotency-Key, send this again"
)
#: Bytes that an answer takes beside images: pieces that are made, sent and not yet read.
BESIDE_BYTES: Final = 2**18


class InlineImages(StreamingResponse):
    """All images of a job that succeeded, one after another."""

    def __init__(self, request: Request, job: Job) -> None:
        self._request, self._job = request, job
        self._pieces = _written(services_of(request), job)
        super().__init__(self._pieces, media_type="application/json")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, if there is room; an error of the first image is told, of others breaks it off.

        Raises:
            TooManyRequests: there is none.
            Unavailable: the object store cannot serve now.
        """
        size = largest_bytes(self._job) + BESIDE_BYTES
        with held(self._request, self._job, size):
            async with aclosing(self._pieces):
                self.body_iterator = _chained(await anext(self._pieces), self._pieces)
                await super().__call__(scope, receive, send)


@contextmanager
def held(request: Request, job: Job, size_bytes: int) -> Iterator[None]:
    """Have room for what an answer takes in memory, until it is sent or given up.

    Raises:
        TooManyRequests: other answers have it.
    """
    answers, size = services_of(request).answers, min(size_bytes, LARGEST_ANSWER_BYTES)
    try:
        answers.hold(job.tenant, size)
    except TooManyRequests as error:
        if idempotency_key(request) is None:  # their client would have it made once more
            request.scope.setdefault(SAID, {})["x-should-retry"] = "false"
        raise TooManyRequests(NO_ROOM.format(job.id), error.retry_after_s) from error
    try:
        yield
    finally:
        answers.release(job.tenant, size)


def largest_bytes(job: Job) -> int:
    """Tell how large the largest image of a job is; as pixels where its record does not say."""
    return max((each.size_bytes or 3 * each.width * each.height for each in job.images), default=0)


def pieces(image: bytes, said: Mapping[str, Any]) -> Iterator[bytes]:
    """Write down an image beside what is said of it, as one object of JSON."""
    yield msgspec.json.encode(said)[:-1] + b',"b64_json":"'
    for at in range(0, len(image), PIECE_BYTES):
        yield base64.b64encode(image[at : at + PIECE_BYTES])
    yield b'"}'


async def _written(services: Services, job: Job) -> AsyncGenerator[bytes, None]:
    """Write down a job and its images; nothing comes before the first of them is read."""
    before = msgspec.json.encode({"created": created_at(job), **described(job)})[:-1] + b',"data":['
    for image in job.images:
        data = await asyncio.to_thread(services.objects.get, image.key)
        written = pieces(data, {"seed": image.seed})
        del data  # which would be in memory beside the next
        for piece in written:
            yield before + piece
            before = b""
            await asyncio.sleep(0)  # a connection that takes all at once leaves others their turn
        before = b","
    yield b"]}" if job.images else before + b"]}"


async def _chained(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece
