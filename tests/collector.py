"""An OpenTelemetry collector on loopback, which keeps what it is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Told:
    """One span, as it arrived."""

    def __init__(self, process, span):
        self.process, self.name = process, span.name
        self.trace, self.id, self.parent = (
            each.hex() for each in (span.trace_id, span.span_id, span.parent_span_id)
        )
        self.begin_s, self.end_s = span.start_time_unix_nano / 1e9, span.end_time_unix_nano / 1e9
        self.fields = {
            each.key: getattr(each.value, each.value.WhichOneof("value"))
            for each in span.attributes
        }
        self.failed = span.status.message if span.status.code == 2 else None


class Collector(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.spans: list[Told] = []


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/v1/traces"
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {each.key: each.value.string_value for each in group.resource.attributes}
            for scope in group.scope_spans:
                self.server.spans += [Told(named["service.name"], span) for span in scope.spans]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format, *args):
        """Keep the test's output clean."""


@contextmanager
def collecting() -> Iterator[Collector]:
    with Collector() as collector:
        Thread(target=collector.serve_forever, daemon=True).start()
        yield collector
        collector.shutdown()
