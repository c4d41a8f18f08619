"""Trace jobs from request to webhook by OpenTelemetry; off, nothing of it is imported."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

Value = str | int | float | bool


class Annotate(Protocol):
    """Adds fields to a span."""

    def __call__(self, **fields: Value) -> None: ...


EXPORT_TIMEOUT_S = 2.0  #: a collector that is away holds up the end of a process for so long
PATH = "v1/traces"  #: of a collector that speaks OTLP over HTTP

#: The span that this task works for, as a `traceparent` (W3C Trace Context); empty: none.
_current: ContextVar[str] = ContextVar("traceparent", default="")


class Traces:
    """What one process tells a collector. Any thread may use it."""

    def __init__(self) -> None:
        """Tell nothing until `start`."""
        self._provider: TracerProvider | None = None
        self._tracer: Tracer | None = None

    @property
    def is_on(self) -> bool:
        """Whether anybody is told."""
        return self._tracer is not None

    def start(self, endpoint: str, process: str) -> None:
        """Send spans to a collector, such as `http://collector:4318`; empty: to nobody."""
        if not endpoint:
            return
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        url = f"{endpoint.rstrip('/')}/{PATH}"
        names = {"service.name": f"atelier-{process}", "service.namespace": "atelier"}
        self._provider = TracerProvider(resource=Resource.create(names))
        exporter = OTLPSpanExporter(endpoint=url, timeout=EXPORT_TIMEOUT_S)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("atelier")

    def stop(self) -> None:
        """Send what has not been sent."""
        provider, self._provider, self._tracer = self._provider, None, None
        if provider is not None:
            provider.shutdown()

    @property
    def current(self) -> str:
        """Name the span that this task works for, for others to go on with."""
        return _current.get()

    @contextmanager
    def span(self, name: str, parent: str = "", **fields: Value) -> Iterator[Annotate]:
        """Time what is done in a block; what fails is marked so. Gives what adds fields to it.

        `parent`: a `traceparent`, perhaps a stranger's; if it is none, the trace begins here.
        """
        if self._tracer is None:
            yield _mark_nothing
            return
        span = self._begin(self._tracer, name, parent or self.current, None, fields)
        before = _current.set(traceparent_of(span))
        try:
            with _Ending(span):
                yield lambda **more: span.set_attributes(_named(more))
        finally:
            _current.reset(before)

    def note(
        self,
        name: str,
        parent: str,
        begin_s: float,
        end_s: float,
        fields: Mapping[str, Value],
        error: str = "",
    ) -> None:
        """Tell of something that was done, from when to when (epoch s), and what went wrong."""
        if self._tracer is None or not parent:
            return
        span = self._begin(self._tracer, name, parent, int(begin_s * 1e9), fields)
        if error:
            _fail(span, error)
        span.end(max(int(end_s * 1e9), int(begin_s * 1e9)))

    def _begin(
        self,
        tracer: "Tracer",
        name: str,
        parent: str,
        at_ns: int | None,
        fields: Mapping[str, Value],
    ) -> "Span":
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        # An empty context, so that nothing else of this thread counts as the parent.
        context = TraceContextTextMapPropagator().extract({"traceparent": parent}, _nowhere())
        return tracer.start_span(name, context, attributes=_named(fields), start_time=at_ns)


class _Ending:
    """Ends a span with its block, and says by what kind of error that ended; not its words."""

    def __init__(self, span: "Span") -> None:
        self._span = span

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            _fail(self._span, kind.__name__)
        self._span.end()


def _named(fields: Mapping[str, Value]) -> dict[str, Value]:
    return {f"atelier.{field}": value for field, value in fields.items()}


def _mark_nothing(**_: Value) -> None:
    return None


def traceparent_of(span: "Span") -> str:
    """Write down a span as W3C Trace Context has it."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _nowhere() -> "Context":
    from opentelemetry.context import Context

    return Context()


def _fail(span: "Span", what: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_status(StatusCode.ERROR, what)


#: Of this process.
TRACES = Traces()
