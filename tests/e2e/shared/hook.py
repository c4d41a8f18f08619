"""A webhook receiver on loopback."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass(frozen=True, slots=True)
class Hook:
    headers: dict[str, str]
    body: bytes


class Receiver(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, refusals: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/hook"
        self.refusals = refusals
        self.hooks: list[Hook] = []


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.hooks.append(Hook({k.lower(): v for k, v in self.headers.items()}, body))
        is_refused = len(self.server.hooks) <= self.server.refusals
        self.send_response(503 if is_refused else 204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


@contextmanager
def receiving(refusals: int = 0) -> Iterator[Receiver]:
    with Receiver(refusals) as receiver:
        thread = Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            thread.join()
