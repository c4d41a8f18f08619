"""A receiver of webhooks: notes which job was said to have ended how, unless it is to refuse."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

from core.job import JobStatus


class Receiver(ThreadingHTTPServer):
    """Answers in threads of its own until it is closed."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.told: dict[str, set[JobStatus]] = {}  #: how each job was said to have ended
        self.refuses = False
        self.url = f"http://127.0.0.1:{self.server_address[1]}/hook"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        """End it."""
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        receiver = cast(Receiver, self.server)
        job = json.loads(self.rfile.read(int(self.headers["content-length"])))["data"]
        if not receiver.refuses:
            receiver.told.setdefault(job["id"], set()).add(JobStatus(job["status"]))
        self.send_response(503 if receiver.refuses else 204)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        """Say nothing."""
