"""How do we call a stranger's URL? Once resolved, never redirected, never read to the end.

The name is resolved here and every address it has must be public; the connection then goes to
one of these, with the name in SNI and Host, so that a second look-up cannot point it elsewhere.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx

from core.addresses import fault_of_url, is_public
from core.errors import TargetRefused

#: Takes a host name and a port, returns its addresses.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a receiver said. Its body is not read."""

    status: int
    retry_after_s: float | None = None  #: how long it asks us to wait


async def resolve(host: str, port: int) -> Sequence[str]:
    """Look a name up with the system's resolver."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


async def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    allow_private: bool,
    resolve: Resolve = resolve,
    trust: ssl.SSLContext | None = None,
) -> Answer:
    """POST a body and return the status. `trust`: whose certificates count, if not the system's.

    Raises:
        TargetRefused: the URL, or an address behind its name, is not one we call.
        httpx.HTTPError, OSError, TimeoutError: the receiver was not reached in time.
    """
    fault = fault_of_url(url, allow_private=allow_private)
    if fault is not None:
        raise TargetRefused(f"the URL {fault}")
    try:
        async with asyncio.timeout(timeout_s):
            address = await _choose(url, allow_private, resolve)
            return await _send(url, address, body, headers, trust or system_trust())
    except (UnicodeError, httpx.InvalidURL) as error:  # a resolver or a client cannot read it
        raise TargetRefused("the URL must name a host that can be looked up") from error


async def _choose(url: str, allow_private: bool, resolve: Resolve) -> str:
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    addresses = await resolve(host, parts.port or (443 if parts.scheme == "https" else 80))
    if not addresses:
        raise OSError(f"{host} has no address")
    if not allow_private and not all(is_public(a) for a in addresses):
        raise TargetRefused(f"{host} has an address that is not public")
    return addresses[0]


async def _send(
    url: str, address: str, body: bytes, headers: Mapping[str, str], trust: ssl.SSLContext
) -> Answer:
    name = httpx.URL(url)
    pinned = name.copy_with(host=_bracketed(address))
    host = name.netloc.decode("ascii")
    async with (
        httpx.AsyncClient(
            verify=trust, timeout=None, trust_env=False, follow_redirects=False
        ) as client,
        client.stream(
            "POST",
            pinned,
            content=body,
            headers={**headers, "Host": host, "Connection": "close"},
            extensions={"sni_hostname": name.host},
        ) as response,
    ):
        return Answer(status=response.status_code, retry_after_s=retry_after(response.headers))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read how long a receiver asks us to wait: seconds, or a date."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max((parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


def _bracketed(address: str) -> str:
    return f"[{address}]" if ip_address(address.split("%")[0]).version == 6 else address


@cache
def system_trust() -> ssl.SSLContext:
    """The system's certificates, read once: reading them takes longer than a call."""
    return ssl.create_default_context()
