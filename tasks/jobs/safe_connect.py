"""Safe connect to an untrusted URL: resolve once, check and pin the address (SSRF).

The name is resolved here and every address it has must be public; the connection then goes to
one of these, with the name in SNI and Host, so that a second look-up cannot point it elsewhere.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx

from core.errors import TargetRefused
from tasks.jobs.addresses import fault_of_url, is_public

#: Takes a host name and a port, returns its addresses.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


async def resolve(host: str, port: int) -> Sequence[str]:
    """Look a name up in the threads of this loop; where others need them, `Lookups` has its own."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


@asynccontextmanager
async def dial(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    allow_private: bool,
    body: bytes | None = None,
    resolve: Resolve = resolve,
    trust: ssl.SSLContext | None = None,
) -> AsyncIterator[httpx.Response]:
    """Send one request; its answer is not followed, and not read yet. The caller keeps the time.

    `trust`: whose certificates count, if not the system's.

    Raises:
        TargetRefused: the URL, or an address behind its name, is not one we call.
        httpx.HTTPError, OSError: nobody answered.
    """
    fault = fault_of_url(url, allow_private=allow_private)
    if fault is not None:
        raise TargetRefused(f"the URL {fault}")
    async with httpx.AsyncClient(
        verify=trust or system_trust(), timeout=None, trust_env=False, follow_redirects=False
    ) as client:
        try:
            address = await _choose(url, allow_private, resolve)
            request = _pinned(client, method, url, address, headers, body)
            response = await client.send(request, stream=True)
        except (UnicodeError, httpx.InvalidURL) as error:  # a resolver or a client cannot read it
            raise TargetRefused("the URL must name a host that can be looked up") from error
        try:
            yield response
        finally:
            await response.aclose()


async def _choose(url: str, allow_private: bool, resolve: Resolve) -> str:
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    addresses = await resolve(host, parts.port or (443 if parts.scheme == "https" else 80))
    if not addresses:
        raise OSError(f"{host} has no address")
    if not allow_private and not all(is_public(a) for a in addresses):
        raise TargetRefused(f"{host} has an address that is not public")
    return addresses[0]


def _pinned(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    address: str,
    headers: Mapping[str, str],
    body: bytes | None,
) -> httpx.Request:
    name = httpx.URL(url)
    return client.build_request(
        method,
        name.copy_with(host=_bracketed(address)),
        content=body,
        headers={**headers, "Host": name.netloc.decode("ascii"), "Connection": "close"},
        extensions={"sni_hostname": name.host},
    )


def _bracketed(address: str) -> str:
    return f"[{address}]" if ip_address(address.split("%")[0]).version == 6 else address


@cache
def system_trust() -> ssl.SSLContext:
    """The system's certificates, read once: reading them takes longer than a call."""
    return ssl.create_default_context()
