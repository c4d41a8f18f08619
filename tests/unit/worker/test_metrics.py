from dataclasses import replace

from core import metrics
from tests.jobs import a_job
from worker.metrics import observe_job


def violations():
    return metrics.slo_violations._value.get()


def test_a_job_later_than_promised_is_a_violation():
    before = violations()
    observe_job(60.0, a_job(), 59.0)
    assert violations() == before
    observe_job(60.0, a_job(), 61.0)
    assert violations() == before + 1


def test_a_deadline_is_the_promise_where_there_is_one():
    before = violations()
    observe_job(60.0, replace(a_job(), deadline_at=5.0), 6.0)
    assert violations() == before + 1
