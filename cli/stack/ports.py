"""Find TCP ports and keep them for the programs that will listen on them."""

import socket
import sys

from core.errors import ConfigurationError

HOST = "127.0.0.1"


def free_port() -> int:
    """Take a port from the system; it is given to nobody else while this process lives."""
    return _keep(0)


def claim_port(asked: int, what: str) -> int:
    """Keep a port that is free, or find one when 0 is asked for, against all who claim any.

    Raises:
        ConfigurationError: somebody listens on it, or it was claimed, by this process or another.
    """
    try:
        port = asked or _keep(0)
        _claim(port)
        return _keep(port) if asked else port
    except OSError as error:
        raise ConfigurationError(
            f"port {asked} for {what}: {error.strerror}; 0 takes a free one"
        ) from error


def _keep(asked: int) -> int:
    """Bind a socket that never listens, and leave it open until this process ends.

    Linux gives its port to nobody who asks for any port, as connections that go out do; a server
    that names it (with SO_REUSEADDR, which Redis, uvicorn and Flower set) may listen on it.
    """
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        keeper.bind((HOST, asked))
    except OSError:
        keeper.close()
        raise
    port: int = keeper.getsockname()[1]
    keeper.detach()
    return port


def _claim(port: int) -> None:
    """Take the one name of a port until this process ends, however it ends.

    Sockets that nobody listens on share a port, and a program that is started again does not listen
    on its own for a while: the name is never shared. Only Linux has such names.
    """
    if sys.platform != "linux":
        return
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0atelier port {HOST}:{port}")
    except OSError:
        claim.close()
        raise
    claim.detach()
