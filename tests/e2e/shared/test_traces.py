"""A job is traced through real processes: from the client's own span to its webhook."""

from itertools import pairwise

import pytest

from tests.e2e.shared.hook import receiving
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
STAGES = ["queued", "encode", "steps", "decode", "store"]


def test_a_job_is_one_trace_from_the_client_to_its_webhook(http, collector):
    with receiving() as receiver:
        asked = {"prompt": "a red circle", "steps": 4, "width": 64, "height": 64}
        hook = {"url": receiver.url, "events": ["completed"]}
        answer = http.post(
            "/v1/jobs",
            json=asked | {"webhook": hook},
            headers={"traceparent": f"00-{TRACE}-{SPAN}-01"},
        )
        job_id = answer.raise_for_status().json()["id"]
        until(lambda: any(each.name == "webhook" for each in mine(collector)))
        until(lambda: len(mine(collector)) == len(STAGES) + 2)
    spans = {span.name: span for span in mine(collector)}
    submit = spans.pop("submit")
    assert (submit.parent, submit.process) == (SPAN, "atelier-api")
    assert {span.parent for span in spans.values()} == {submit.id}
    assert spans["webhook"].process == "atelier-cpu-worker"
    assert {spans[name].process for name in STAGES} == {"atelier-worker"}
    for span in (submit, *spans.values()):
        assert span.fields["atelier.job"] == job_id
        assert span.fields["atelier.tenant"]
        assert span.failed is None
        assert not any("red circle" in str(value) for value in span.fields.values())
    assert spans["steps"].fields["atelier.steps"] == 4
    in_turn = [spans[name] for name in STAGES]
    for span, after in pairwise(in_turn):
        assert span.begin_s <= span.end_s == pytest.approx(after.begin_s, abs=1e-5)


def mine(collector):
    return [span for span in collector.spans if span.trace == TRACE]
