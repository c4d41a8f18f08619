"""Open HTTP sessions for load, and name what goes wrong in them."""

from urllib.parse import urlsplit

import aiohttp

from core.errors import ConfigurationError

#: Seconds of one long poll.
POLL_S = 20.0
#: Seconds until a connection stands, and between two pieces of an answer.
CONNECT_S, READ_S = 10.0, POLL_S + 40.0

#: What any request may raise.
ERRORS = (aiohttp.ClientError, TimeoutError, OSError)


def open_session(url: str, key: str | None) -> aiohttp.ClientSession:
    """Open a session without a limit on connections: every job in flight holds one.

    Raises:
        ConfigurationError: the URL is none of a service, or no header can carry the key.
    """
    if fault := _fault(url):
        raise ConfigurationError(f"url: {url[:200]!r} {fault}, such as http://127.0.0.1:8000")
    if key and not (key.isascii() and key.isprintable()):
        raise ConfigurationError("key: the API key must be printable ASCII, without line breaks")
    return aiohttp.ClientSession(
        base_url=url,
        headers={"Authorization": f"Bearer {key}"} if key else {},
        timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=READ_S),
        connector=aiohttp.TCPConnector(limit=0),
        auto_decompress=True,
    )


def _fault(url: str) -> str:
    """Tell what is wrong with the URL of a service, and what to write; empty: nothing."""
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_host = False
    if not has_host or parts.scheme not in ("http", "https"):
        return "is no URL of a host: write http:// or https://, the host and its port"
    if parts.path.strip("/") or parts.query or parts.fragment:
        return "has a path, and requests go to the root of a host: write the host and its port"
    return ""


def name_of(error: BaseException) -> str:
    """Name a failure of the network, the same for equal causes."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return "ConnectError"
    if isinstance(error, TimeoutError):
        return "ReadTimeout"
    return type(error).__name__
