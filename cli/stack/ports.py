"""Find and check free TCP ports."""

import socket

from core.errors import ConfigurationError

HOST = "127.0.0.1"


def free_port() -> int:
    """Take a port from the system; nobody holds it until its program starts."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def claim_port(asked: int, what: str) -> int:
    """Check that a port is free, or find one when 0 is asked for.

    Raises:
        ConfigurationError: somebody listens on it.
    """
    if asked == 0:
        return free_port()
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, asked))
        except OSError as error:
            raise ConfigurationError(
                f"port {asked} for {what}: {error.strerror}; 0 takes a free one"
            ) from error
    return asked
