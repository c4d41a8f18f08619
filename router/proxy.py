"""Pass requests on to a cell and its answers back, as they come: nothing is collected."""

import errno
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Final

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

#: Headers that are of one connection and no other.
HOP: Final = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "expect",
    )
)
#: Seconds to connect, and that a cell may say nothing: streams send a comment every 15 s, and
#: whoever waits for images by OpenAI's API waits for minutes.
CONNECT_S: Final = 2.0
SILENCE_S: Final = 900.0
#: Says which cell answered, and in a request which one is asked.
CELL_HEADER: Final = "Atelier-Cell"

Body = AsyncIterator[bytes] | None


class CellUnreachable(Exception):
    """A cell could not be connected to: it has heard nothing of the request."""


class CellLost(Exception):
    """A cell did not answer a request that it may have heard."""


class RouterFull(Exception):
    """No more connections can be opened here: that says nothing of the cell."""


def open_session() -> aiohttp.ClientSession:
    """Open connections to cells; answers stay as they are packed."""
    return aiohttp.ClientSession(
        auto_decompress=False,
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_S, connect=None, sock_read=SILENCE_S
        ),
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


async def ask(
    http: aiohttp.ClientSession, request: web.Request, url: str, body: Body
) -> aiohttp.ClientResponse:
    """Send a request on; the answer's head has come when this returns.

    Raises:
        CellUnreachable: it may be sent to another cell.
        CellLost: nobody knows what became of it.
        RouterFull: it cannot be sent from here now.
    """
    whole = URL(url.rstrip("/") + request.raw_path, encoded=True)
    headers = _forwarded(request, has_body=body is not None)
    try:
        return await http.request(
            request.method, whole, headers=headers, data=body, allow_redirects=False
        )
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        if is_full(error):
            raise RouterFull("no file is left for a connection to a cell") from error
        raise CellUnreachable(str(error)) from error
    except (aiohttp.ClientError, OSError) as error:
        raise CellLost(str(error)) from error


def is_full(error: BaseException) -> bool:
    """Tell whether a connection failed for want of an open file here."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


async def pass_back(
    request: web.Request, answer: aiohttp.ClientResponse, cell: str
) -> web.StreamResponse:
    """Send an answer back as it comes; one that breaks off breaks off for the client as well."""
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    response.headers.extend(_kept(answer.headers))
    response.headers[CELL_HEADER] = cell
    with suppress(aiohttp.ClientConnectionResetError):  # whoever asked has gone
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
    return response


def _forwarded(request: web.Request, *, has_body: bool) -> CIMultiDict[str]:
    headers = _kept(request.headers)
    if not has_body:  # the cell would take the next request of the connection for it
        headers.popall("Content-Length", None)
    headers.popall(CELL_HEADER, None)
    before = headers.popall("X-Forwarded-For", [])
    headers["X-Forwarded-For"] = ", ".join([*before, request.remote or ""])
    headers.setdefault("X-Forwarded-Proto", request.scheme)
    return headers


def _kept(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """Drop what is of one connection, also by its own account."""
    named = {each.strip().lower() for each in headers.get("Connection", "").split(",")}
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in HOP | named
    )
