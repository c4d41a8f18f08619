"""Spans arrive at a collector, below those that callers name; off, there is nothing at all."""

import subprocess
import sys

import pytest

from core.telemetry.traces import Traces
from tests.collector import collecting

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLER = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture
def told():
    """A process that traces, and what its collector has by its end."""
    with collecting() as collector:
        traces = Traces()
        traces.start(collector.url, "api")

        def end():
            traces.stop()
            return {span.name: span for span in collector.spans}

        yield traces, end
        traces.stop()


def test_a_span_goes_on_where_its_caller_stands_and_names_itself_to_others(told):
    traces, end = told
    with traces.span("submit", CALLER, tenant="acme") as mark:
        mark(job="j1")
        inner = traces.current
        with traces.span("store"):
            pass
    assert traces.current == ""
    spans = end()
    submit, store = spans["submit"], spans["store"]
    assert (submit.trace, submit.parent, submit.process) == (TRACE, SPAN, "atelier-api")
    assert (store.trace, store.parent) == (TRACE, submit.id)
    assert inner == f"00-{TRACE}-{submit.id}-01"
    assert submit.fields == {"atelier.tenant": "acme", "atelier.job": "j1"}


@pytest.mark.parametrize("stranger", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
def test_a_trace_begins_here_where_the_caller_names_none(told, stranger):
    traces, end = told
    with traces.span("submit", stranger):
        pass
    (span,) = end().values()
    assert span.parent == "" and span.trace not in ("0" * 32, TRACE)


def test_what_the_caller_does_not_want_traced_is_not(told):
    traces, end = told
    with traces.span("submit", f"00-{TRACE}-{SPAN}-00"):
        trace = traces.current
        traces.note("queued", trace, 1.0, 2.0, {})
    assert end() == {}


def test_what_was_done_is_told_with_its_times(told):
    traces, end = told
    traces.note("steps", CALLER, 1000.25, 1002.5, {"steps": 50})
    traces.note("store", CALLER, 1003.0, 1002.0, {}, "ObjectsUnavailable")
    traces.note("nobody's", "", 1.0, 2.0, {})
    spans = end()
    assert set(spans) == {"steps", "store"}
    assert (spans["steps"].begin_s, spans["steps"].end_s) == (1000.25, 1002.5)
    assert spans["steps"].fields == {"atelier.steps": 50}
    assert spans["steps"].parent == SPAN and spans["steps"].failed is None
    assert spans["store"].begin_s == spans["store"].end_s == 1003.0  # clocks differ
    assert spans["store"].failed == "ObjectsUnavailable"


def test_a_block_that_fails_says_by_what(told):
    traces, end = told
    with pytest.raises(ValueError), traces.span("submit"):
        raise ValueError("of a client, perhaps a secret")
    assert end()["submit"].failed == "ValueError"


def test_a_process_whose_collector_is_away_ends_all_the_same():
    traces = Traces()
    traces.start("http://127.0.0.1:9", "api")
    with traces.span("submit"):
        pass
    traces.stop()


def test_off_nothing_is_imported_and_nothing_done():
    program = """
import sys
from core.telemetry.traces import TRACES
TRACES.start("", "api")
with TRACES.span("submit", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") as mark:
    mark(job="j1")
    assert TRACES.current == ""
TRACES.note("queued", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 1.0, 2.0, {})
TRACES.stop()
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    subprocess.run([sys.executable, "-c", program], check=True)
