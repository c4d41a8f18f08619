"""A network between one process and one server, that can be cut, partitioned and slowed down."""

import socket
import threading
import time
from contextlib import suppress

CHUNK = 65536


class Link:
    """Forwards connections to one port of this machine, as well as it is told to."""

    def __init__(self, port: int) -> None:
        """Listen on a port of its own; `port`: of the server."""
        self._to = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._flows = threading.Event()  #: clear: what is sent waits, as where packets are lost
        self._flows.set()
        self._open: set[socket.socket] = set()
        self.delay_s = 0.0  #: of each piece of data, in both directions
        self.is_deaf = False  #: requests arrive, answers are lost
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Reset every connection that there is; new ones are taken."""
        for each in tuple(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def part(self) -> None:
        """Let nothing through: neither side hears of it."""
        self._flows.clear()

    def heal(self) -> None:
        """Be a good network again. What was lost for good ends its connection."""
        was_deaf, self.is_deaf, self.delay_s = self.is_deaf, False, 0.0
        self._flows.set()
        if was_deaf:
            self.cut()

    def close(self) -> None:
        """End everything."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._flows.set()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._flows.wait()
        with client, suppress(OSError), socket.create_connection(self._to, 2.0) as server:
            server.settimeout(None)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open |= {client, server}
            back = threading.Thread(target=self._pump, args=(server, client, True), daemon=True)
            back.start()
            self._pump(client, server, False)
            back.join()
            self._open -= {client, server}

    def _pump(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK):
                self._flows.wait()
                if self.delay_s:
                    time.sleep(self.delay_s)
                if not (is_answer and self.is_deaf):
                    sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
