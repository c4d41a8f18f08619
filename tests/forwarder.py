"""Answer one name by several addresses, as a network's DNS does: connect to whichever answers."""

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

Address = tuple[str, int]


class Forwarder:
    """Forwards connections to the next of several addresses that accepts them."""

    def __init__(self, at: Address, to: Sequence[Address]) -> None:
        self._to = to
        self._turns = count()
        self._listener = socket.create_server(at)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            first = next(self._turns)
            for turn in range(len(self._to)):
                with (
                    suppress(OSError),
                    socket.create_connection(
                        self._to[(first + turn) % len(self._to)], 2.0
                    ) as server,
                ):
                    server.settimeout(None)
                    back = threading.Thread(target=_pump, args=(server, client), daemon=True)
                    back.start()
                    _pump(client, server)
                    back.join()
                    return


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for each in (source, sink):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
