"""Where a service is, how it is asked, and what requests carry: the same for both clients."""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypedDict

import httpx

from atelier_client.errors import ClientError
from atelier_client.exchange.retries import Retries
from atelier_client.exchange.steps import Answer, Call, Lost, Param

VERSION: Final = "0.1.0"
DEFAULT_URL: Final = "http://127.0.0.1:8000"
CONNECT_S: Final = 10.0
#: Connections at a time, each of one call; a call beyond them waits for one as long as it takes.
#: A service holds a thousand for one address.
LIMITS: Final = httpx.Limits(max_connections=500, max_keepalive_connections=20)


class HttpClient(TypedDict):
    """What both of httpx's clients are made with."""

    base_url: str
    headers: Mapping[str, str]
    verify: ssl.SSLContext
    limits: httpx.Limits


class HttpRequest(TypedDict):
    """What httpx needs of a call, other than its content."""

    method: str
    url: str
    params: Mapping[str, Param] | None
    headers: Mapping[str, str]
    json: Any
    timeout: httpx.Timeout


@cache
def _trusted() -> ssl.SSLContext:
    """Read whom to trust, once for all clients of a process: it takes httpx 40 ms each time."""
    return httpx.create_ssl_context()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """How one client asks."""

    url: str
    key: str | None = field(repr=False)
    cell: str | None  #: of a service of several, the one that is asked
    timeout_s: float
    retries: Retries

    @classmethod
    def of(
        cls,
        url: str | None,
        key: str | None,
        cell: str | None,
        *,
        timeout_s: float,
        max_retries: int,
    ) -> "ClientSettings":
        """Read what is not given from ATELIER_URL, ATELIER_API_KEY and ATELIER_ASK_CELL.

        Raises:
            ClientError: no header can carry the key, or the name of the cell.
        """
        key = key or os.environ.get("ATELIER_API_KEY") or None
        cell = cell or os.environ.get("ATELIER_ASK_CELL") or None
        for what, said in (("API key", key), ("cell's name", cell)):
            if said is not None and not (said.isascii() and said.isprintable()):
                raise ClientError(f"the {what} must be printable ASCII")
        return cls(
            url=url or os.environ.get("ATELIER_URL") or DEFAULT_URL,
            key=key,
            cell=cell,
            timeout_s=timeout_s,
            retries=Retries(most=max_retries),
        )

    def http(self) -> HttpClient:
        """Give what both of httpx's clients are made with."""
        agent = {"User-Agent": f"atelier-client/{VERSION}"}
        return {"base_url": self.url, "headers": agent, "verify": _trusted(), "limits": LIMITS}

    def request(self, call: Call) -> HttpRequest:
        """Give what httpx needs of a call, other than its content."""
        return {
            "method": call.method,
            "url": call.path,
            "params": call.params or None,
            "headers": {**self._said_of(call), **_length(call), **call.headers},
            "json": call.json,
            "timeout": httpx.Timeout(
                call.timeout_s or self.timeout_s, connect=CONNECT_S, pool=None
            ),
        }

    def _said_of(self, call: Call) -> dict[str, str]:
        """Say who asks which cell; nothing to a store, which a signed URL may lead to."""
        said = {"Authorization": self.key and f"Bearer {self.key}", "Atelier-Cell": self.cell}
        return {name: value for name, value in said.items() if value and not call.is_signed}

    def lost(self, error: httpx.RequestError) -> Lost:
        """Say why nothing was heard, and whether the service may have heard us."""
        unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)
        reason = f"{self.url} does not answer: {str(error) or type(error).__name__}"
        return Lost(reason=reason, was_sent=not isinstance(error, unsent))


def answer_of(response: httpx.Response, body: bytes = b"") -> Answer:
    """Take what httpx read; header names are in lower case."""
    headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
    return Answer(status=response.status_code, headers=headers, body=body)


def _length(call: Call) -> dict[str, str]:
    """Say how long a file is: it is sent in pieces."""
    if call.content is None or isinstance(call.content, bytes):
        return {}
    return {"Content-Length": str(call.content.stat().st_size)}
