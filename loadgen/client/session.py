"""Open HTTP sessions for load, and name what goes wrong in them."""

import aiohttp

#: Seconds of one long poll.
POLL_S = 20.0
#: Seconds until a connection stands, and between two pieces of an answer.
CONNECT_S, READ_S = 10.0, POLL_S + 40.0

#: What any request may raise.
ERRORS = (aiohttp.ClientError, TimeoutError, OSError)


def open_session(url: str, key: str | None) -> aiohttp.ClientSession:
    """Open a session without a limit on connections: every job in flight holds one."""
    return aiohttp.ClientSession(
        base_url=url,
        headers={"Authorization": f"Bearer {key}"} if key else {},
        timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=READ_S),
        connector=aiohttp.TCPConnector(limit=0),
        auto_decompress=True,
    )


def name_of(error: BaseException) -> str:
    """Name a failure of the network, the same for equal causes."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return "ConnectError"
    if isinstance(error, TimeoutError):
        return "ReadTimeout"
    return type(error).__name__
