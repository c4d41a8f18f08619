"""A tiny real service on loopback that knows one job: it is made while its events are read."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

IMAGE = b"\x89PNG an image"
SHA256 = hashlib.sha256(IMAGE).hexdigest()

EVENTS = """event: status
data: {"status": "queued"}

: ping

id: 1-0
event: status
data: {"status": "running"}

id: 1-1
event: progress
data: {"step": 3, "steps": 8}

id: 1-2
event: done
data: {"id": "j1", "status": "succeeded"}

"""


class TinyService(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.status = "queued"
        self.ends_as = "succeeded"
        self.breaks = 0  #: streams to break off after the first event
        self.images = 1
        self.prompt = "a red circle"
        self.sha256 = SHA256
        self.seen: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[dict[str, object]] = []
        self.uploads: list[bytes] = []

    def job(self) -> dict[str, object]:
        is_made = self.status == "succeeded"
        image = {"url": f"{self.url}/v1/files/a.png?signature=s", "sha256": self.sha256, "seed": 1}
        return {
            "id": "j1",
            "object": "job",
            "status": self.status,
            "prompt": self.prompt,
            "created_at": 1.0,
            "progress": {"step": 0, "steps": 8},
            "queue_position": 2,
            "eta_s": 3.25,
            "placement": {"queue": "gen.m", "model": "m", "level": "m@0", "worker": None},
            "images": [image] * self.images if is_made else [],
            "error": {"type": "engine_error", "title": "It broke", "detail": "step [3]"}
            if self.status == "failed"
            else None,
            "timing": {"queue_s": 0.1, "total_s": 0.4},
            "urls": {"self": f"{self.url}/v1/jobs/j1"},
        }


class Handler(BaseHTTPRequestHandler):
    server: TinyService

    def do_GET(self) -> None:
        self._note()
        path = self.path.partition("?")[0]
        if path == "/v1/jobs/j1/events":
            return self._events()
        if path == "/v1/files/a.png":
            return self._send(200, IMAGE, "image/png")
        answers = {
            "/v1/jobs": {"object": "list", "data": [self.server.job()], "cursor": "next"},
            "/v1/jobs/j1": self.server.job(),
            "/v1/models": {"object": "list", "data": [MODEL]},
            "/v1/applications": {"object": "list", "data": [APPLICATION]},
            "/v1/templates": {"object": "list", "data": [TEMPLATE], "cursor": "next"},
            "/v1/loras": {"object": "list", "data": [LORA], "cursor": "next"},
            "/v1/embeddings": {"object": "list", "data": [EMBEDDING], "cursor": "next"},
            "/v1/files": {"object": "list", "data": [FILE], "cursor": "next"},
            f"/v1/files/{FILE['id']}": FILE,
            f"/v1/loras/{LORA['id']}": LORA,
            "/v1/applications/avatars": APPLICATION,
            "/v1/ip-adapters": {"object": "list", "data": [{"id": "plus", "models": ["m"]}]},
            "/v1/webhooks/dead": {"object": "list", "data": [WEBHOOK], "cursor": "next"},
            "/v1/webhooks/default/secret": {"key": "whsec_c2VjcmV0"},
            "/v1/fleet": {"object": "fleet", "workers": [WORKER], "queues": []},
            "/v1/plan": PLAN,
            "/v1/history": {"object": "history", "data": [PERIOD]},
        }
        self._answer(answers.get(path))

    def do_POST(self) -> None:
        self._note()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/v1/jobs/j1/cancel":
            self.server.status = "canceled"
            return self._json(200, self.server.job())
        if self.path == "/v1/jobs/j1/retry":
            self.server.status = "queued"
            return self._json(202, self.server.job())
        if self.path in ("/v1/templates", "/v1/files"):
            self.server.uploads.append(body)
            return self._json(201, TEMPLATE)
        if self.path == f"/v1/webhooks/{WEBHOOK['id']}/replay":
            return self._json(202, {"id": WEBHOOK["id"], "object": "webhook", "replayed": True})
        if self.path.startswith("/v1/loras?"):
            self.server.uploads.append(body)
            return self._json(201, LORA)
        if self.path.startswith("/v1/embeddings?"):
            self.server.uploads.append(body)
            return self._json(201, EMBEDDING)
        self.server.bodies.append(json.loads(body))
        if self.path == "/v1/applications":
            return self._json(201, APPLICATION)
        if self.server.bodies[-1].get("prompt") == "":
            return self._json(422, PROBLEM)
        return self._json(202, self.server.job())

    def do_DELETE(self) -> None:
        self._note()
        gone = {
            f"/v1/templates/{TEMPLATE['id']}": {"id": TEMPLATE["id"], "object": "template"},
            f"/v1/files/{FILE['id']}": {"id": FILE["id"], "object": "file"},
            f"/v1/loras/{LORA['id']}": {"id": LORA["id"], "object": "lora"},
            f"/v1/embeddings/{EMBEDDING['id']}": {"id": EMBEDDING["id"], "object": "embedding"},
            "/v1/applications/avatars": {"name": "avatars", "object": "application"},
        }
        self._answer(gone.get(self.path))

    def _note(self) -> None:
        self.server.seen.append((self.command, self.path))
        self.server.headers.append(dict(self.headers))

    def _events(self) -> None:
        if self.server.breaks > 0:
            self.server.breaks -= 1
            text = EVENTS.partition("id: 1-1")[0]
            return self._send(200, text.encode(), "text/event-stream", declared=10_000)
        self.server.status = self.server.ends_as
        resumed = self.headers.get("Last-Event-ID") == "1-0"
        text = EVENTS[EVENTS.index("id: 1-1") :] if resumed else EVENTS
        return self._send(200, text.encode(), "text/event-stream")

    def _answer(self, found: object) -> None:
        self._json(200, found) if found else self._json(404, NOT_FOUND)

    def _json(self, status: int, content: object) -> None:
        self._send(status, json.dumps(content).encode(), "application/json")

    def _send(self, status: int, content: bytes, kind: str, declared: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(declared or len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


EMBEDDING = {
    "id": "0b5a3c1e9d7f4a68b2c4d6e8f0a1b3c5",
    "object": "embedding",
    "models": ["m"],
    "token": "<cat>",
    "vectors": 2,
    "bytes": 10,
    "sha256": "ab",
    "created_at": 1.0,
}
LORA = {
    "id": "0b5a3c1e9d7f4a68b2c4d6e8f0a1b3c5",
    "object": "lora",
    "models": ["m"],
    "layers": 164,
    "bound": 10,
    "bytes": 2**20,
    "sha256": SHA256,
    "created_at": 1.0,
}
MODEL = {
    "id": "m",
    "object": "model",
    "family": "sdxl",
    "levels": ["m@0"],
    "sizes": {"default": 64, "min": 64, "max": 128, "multiple": 16},
    "steps": {"default": 30, "max": 100},
    "is_resident": True,
}
APPLICATION = {
    "name": "avatars",
    "object": "application",
    "models": ["m"],
    "slo_s": 2.5,
    "quality_floor": 0.9,
}
TEMPLATE = {
    "id": "0b5a3c1e9d7f4a68b2c4d6e8f0a1b3c5",
    "object": "template",
    "width": 96,
    "height": 64,
    "created_at": 1.0,
    "url": "http://127.0.0.1/files/t.png?signature=s",
}
FILE = TEMPLATE | {"object": "file"}
WEBHOOK = {
    "id": "d1",
    "object": "webhook",
    "job": "j1",
    "event": "completed",
    "url": "https://example.com/hook",
    "attempts": 8,
}
WORKER = {
    "name": "w1@h",
    "device_type": "cpu",
    "models": ["m"],
    "memory_gib": 4.0,
    "failures": {"other": "it is not there"},
}
PLAN = {
    "object": "plan",
    "version": 7,
    "made_at": 1.0,
    "policy": "atelier",
    "workers": {"w1@h": "m"},
    "pasm": [{"application": "default", "affinity": "easy", "shares": {"m@0": 0.75, "m@5": 0.25}}],
    "saturation": 0.1,
}
PERIOD = {"ended_at": 90.0, "seconds": 30.0, "accepted": 12, "succeeded": 11, "p95_s": 3.25}
PROBLEM = {
    "type": "urn:x",
    "title": "The request has fields that cannot be accepted",
    "status": 422,
    "detail": "prompt: must not be empty",
    "errors": [{"field": "prompt", "detail": "must not be empty"}],
}
NOT_FOUND = {"title": "There is no such thing", "status": 404, "detail": "no job [j9]"}


@contextmanager
def serving() -> Iterator[TinyService]:
    with TinyService() as service:
        thread = Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield service
        finally:
            service.shutdown()
            thread.join()
