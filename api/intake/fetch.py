"""Download an image from an untrusted URL: every redirect checked, size bounded."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Protocol

import httpx

from core.errors import ImageRefused, TargetRefused
from tasks.jobs.safe_connect import dial

#: Redirects that are followed: enough for a moved file and for a signed one behind it.
MAX_REDIRECTS = 3
#: Unpacked content is not asked for: a few bytes may unpack to more than anybody can hold.
HEADERS = {
    "accept": "image/png, image/jpeg, image/webp",
    "accept-encoding": "identity",
    "user-agent": "Atelier-Images/1",
}


class Dial(Protocol):
    """Sends one request to an address that has been looked at, as `safe_connect` does."""

    def __call__(
        self, method: str, url: str, *, headers: Mapping[str, str], allow_private: bool
    ) -> AbstractAsyncContextManager[httpx.Response]: ...


async def fetch(
    url: str, *, max_bytes: int, timeout_s: float, allow_private: bool, dial: Dial = dial
) -> bytes:
    """Read what a URL holds.

    Raises:
        ImageRefused: it is not one we call, leads to one, does not answer, or holds too much.
    """
    get = partial(dial, "GET", headers=HEADERS, allow_private=allow_private)
    try:
        async with asyncio.timeout(timeout_s):
            return await _follow(get, url, max_bytes)
    except TargetRefused as error:
        raise ImageRefused(f"is not fetched: {error}") from error
    except TimeoutError as error:
        raise ImageRefused(f"was not sent by its host within {timeout_s:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise ImageRefused("could not be fetched: its host does not answer as it should") from error


async def _follow(
    get: Callable[[str], AbstractAsyncContextManager[httpx.Response]], url: str, max_bytes: int
) -> bytes:
    for _ in range(1 + MAX_REDIRECTS):
        async with get(url) as response:
            if response.has_redirect_location:
                url = str(httpx.URL(url).join(response.headers["location"]))
                continue
            if response.status_code != httpx.codes.OK:
                raise ImageRefused(f"could not be fetched: its host answers {response.status_code}")
            return await _read(response, max_bytes)
    raise ImageRefused(f"is redirected more than {MAX_REDIRECTS} times")


async def _read(response: httpx.Response, max_bytes: int) -> bytes:
    """Count what arrives; a declared length is only a reason to give up earlier."""
    declared = response.headers.get("content-length", "")
    taken = bytearray()
    if not (declared.isdigit() and int(declared[:20]) > max_bytes):
        chunks: AsyncIterator[bytes] = response.aiter_raw()
        async for chunk in chunks:
            taken += chunk
            if len(taken) > max_bytes:
                break
        else:
            return bytes(taken)
    raise ImageRefused(f"is larger than {max_bytes} bytes")
