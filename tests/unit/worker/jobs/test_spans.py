"""What a trace is told of a claim: its stages, or what it ended by."""

import time
from dataclasses import replace
from itertools import pairwise

import pytest

from core.errors import JobHandedOver, OutOfMemory
from core.telemetry.traces import TRACES
from tests.collector import collecting
from tests.jobs import a_job
from tests.unit.worker.house import House
from worker.engine.slot import JobImages
from worker.jobs.spans import tell

PARENT = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"


@pytest.fixture
def told():
    """Tell of a result; give the spans that came of it, by name."""
    with collecting() as collector:
        TRACES.start(collector.url, "worker")

        def spans(**result):
            job = replace(a_job("j1", steps=4), trace=PARENT, worker="w1", created_at=10.0)
            status = "failed" if "error" in result else "succeeded"
            tell(job, status, taken_at=12.0, made_at=15.0, **result)
            TRACES.stop()
            return {span.name: span for span in collector.spans}

        yield spans
        TRACES.stop()


def traced(house, trace=PARENT):
    """Make a job of this trace; give its spans, by name."""
    job_id = house.submit()
    record = house.store.records[job_id]
    record.job = replace(record.job, trace=trace)
    with collecting() as collector:
        TRACES.start(collector.url, "worker")
        house.take(job_id)
        house.run()
        house.finish()
        TRACES.stop()
        return {span.name: span for span in collector.spans}


@pytest.mark.parametrize("trace", [PARENT, ""])
def test_a_job_is_told_once_it_has_ended_if_somebody_traces_it(trace):
    told = traced(House(), trace)
    names = ["queued", "encode", "steps", "decode", "store"]
    assert sorted(told) == (sorted(names) if trace else [])
    if trace:
        assert told["store"].fields["atelier.status"] == "succeeded"
        assert all(
            before.end_s == after.begin_s for before, after in pairwise(told[n] for n in names)
        )


def test_a_job_that_another_worker_is_to_make_has_not_failed():
    house = House()
    house.engine.detach("m")
    told = traced(house)
    assert told["make"].fields["atelier.status"] == "handed_over"


MADE = JobImages(job_id="j1", images=(), seeds=(), admitted_at=13.0, denoised_at=14.5, device_s=1.5)


def test_a_job_that_was_made_is_told_stage_by_stage(told):
    began_at = time.time()
    spans = told(made=MADE)
    ended_at = time.time()
    shift_s = time.time() - time.monotonic()
    times = {name: (span.begin_s, span.end_s) for name, span in spans.items()}
    assert times.pop("queued") == pytest.approx((10.0, shift_s + 12.0), abs=1.0)
    begun_at, stored_at = times.pop("store")
    assert begun_at == pytest.approx(shift_s + 15.0, abs=1.0)
    assert began_at - 0.1 <= stored_at <= ended_at + 0.1
    assert times == {
        "encode": pytest.approx((shift_s + 12.0, shift_s + 13.0), abs=0.1),
        "steps": pytest.approx((shift_s + 13.0, shift_s + 14.5), abs=0.1),
        "decode": pytest.approx((shift_s + 14.5, shift_s + 15.0), abs=0.1),
    }
    assert {span.parent for span in spans.values()} == {"b" * 16}
    assert spans["steps"].fields["atelier.device_s"] == 1.5
    assert spans["store"].fields["atelier.status"] == "succeeded"


@pytest.mark.parametrize("error", [OutOfMemory("full"), JobHandedOver("goes on elsewhere")])
def test_a_claim_that_made_nothing_says_what_it_ended_by(told, error):
    spans = told(error=error)
    assert spans.keys() == {"queued", "make"}
    assert spans["make"].failed == type(error).__name__
    assert spans["queued"].failed is None


def test_images_that_could_not_be_stored_are_an_error_of_that(told):
    spans = told(made=MADE, error=OutOfMemory("full"))
    assert [name for name, span in spans.items() if span.failed] == ["store"]
