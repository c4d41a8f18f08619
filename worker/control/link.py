"""ZeroMQ link of base and ControlNet workers: Unix socket or TCP, dead peers detected.

Both sides notice within a second that the other has gone: the kernel closes what a killed process
had open, and ZeroMQ looks for those that hang or cannot be reached.
"""

import secrets
import socket
from collections.abc import Sequence

import zmq
from zmq.utils.monitor import recv_monitor_message

from core.errors import EngineError

_HEARTBEAT_MS = 200
_GONE_MS = 900

#: Names of this host begin so; they are in no file system, so none is left behind.
_HERE = "ipc://@"

Context = zmq.Context[zmq.Socket[bytes]]
Socket = zmq.Socket[bytes]


def open_socket(context: Context, kind: int) -> Socket:
    """Open a socket that notices when the other side has gone, and drops nothing before that."""
    opened = context.socket(kind)
    opened.linger = 0
    opened.sndhwm = opened.rcvhwm = 0
    opened.heartbeat_ivl = _HEARTBEAT_MS
    opened.heartbeat_timeout = _GONE_MS
    return opened


def bind_here(bound: Socket, host: str) -> tuple[str, ...]:
    """Listen to this host, and by a name or address of it to others; say where."""
    here = f"{_HERE}atelier-{secrets.token_hex(8)}"
    bound.bind(here)
    if not host:
        return (here,)
    port = bound.bind_to_random_port(f"tcp://{socket.gethostbyname(host)}")
    return (here, f"tcp://{host}:{port}")


def choose(endpoints: Sequence[str]) -> str:
    """Choose the first endpoint that can be reached from here. Raises: EngineError if none can."""
    for endpoint in endpoints:
        if not endpoint.startswith(_HERE) or _is_here(endpoint):
            return endpoint
    raise EngineError(f"none of {', '.join(endpoints)} can be reached from this host")


def _is_here(endpoint: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex("\0" + endpoint.removeprefix(_HERE)) == 0


class Monitor:
    """Tells whether a connected socket has met the other side, and has lost it."""

    def __init__(self, connected: Socket) -> None:
        self.is_met = False  #: as last looked
        self._connected = connected
        events = zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED
        self.socket: Socket = connected.get_monitor_socket(events)

    def is_lost(self) -> bool:
        """Tell, without waiting."""
        while self.socket.poll(0):
            if recv_monitor_message(self.socket)["event"] == zmq.EVENT_DISCONNECTED:
                return True
            self.is_met = True
        return False

    def close(self) -> None:
        """Stop watching the socket."""
        self._connected.disable_monitor()
        self.socket.close(linger=0)
