"""When a claimed job is due by its worker's clock, and where its seconds went."""

import time
from dataclasses import replace

import pytest

from core.errors import JobCanceled, JobExpired, ObjectsUnavailable
from core.job import Claim, JobStatus
from tests.jobs import a_job
from worker.engine.slot import JobImages
from worker.jobs.claimed import ClaimedJob, JobEnding, Result, outcome_of

MADE = JobImages(job_id="j1", images=(), seeds=(0,), admitted_at=108.123456, denoised_at=110.5)


def claimed(*, taken_at=100.0, **changes):
    job = replace(a_job(), **changes)
    claim = Claim(job=job, fence=1, lease_until=0.0)
    return ClaimedJob(claim=claim, taken_at=taken_at, on_end=lambda ending: None)


def test_a_deadline_is_as_far_from_the_claim_as_the_store_says():
    assert claimed(started_at=50.0, deadline_at=57.0).deadline == 107.0
    assert claimed(started_at=50.0).deadline is None


def test_a_job_has_taken_its_wait_by_the_stores_clock_and_the_rest_by_ours(monkeypatch):
    monkeypatch.setattr("worker.jobs.claimed.time.monotonic", lambda: 107.0)
    waited = claimed(taken_at=104.0, created_at=10.0, started_at=15.0)
    assert waited.total_s() == pytest.approx(8.0)
    assert claimed(taken_at=104.0).total_s() == pytest.approx(3.0)


def test_what_a_job_needs_is_asked_for_again_until_it_has_ended_or_waited_too_long(monkeypatch):
    monkeypatch.setattr("worker.jobs.claimed.time.monotonic", lambda: 107.0)
    away = ObjectsUnavailable("away")
    assert claimed().give_up(107.5, away) is None
    assert claimed().give_up(107.0, away) is away
    assert claimed(started_at=50.0, deadline_at=57.5).give_up(107.5, away) is None
    late = claimed(started_at=50.0, deadline_at=57.0)
    assert isinstance(late.give_up(107.5, away), JobExpired)
    late.is_void = True
    assert isinstance(late.give_up(107.0, away), JobCanceled)


def test_the_seconds_of_a_job_are_told_by_what_was_done():
    timing = outcome_of(Result(held=claimed(), made=MADE)).timing
    assert (timing.prepare_s, timing.denoise_s) == (8.1235, 2.3765)
    assert timing.finish_s == pytest.approx(time.monotonic() - 110.5, abs=5.0)
    early = outcome_of(Result(held=claimed(taken_at=108.5), made=MADE)).timing
    assert early.prepare_s == 0.0, "clocks differ by less than what was measured"


def test_seconds_are_told_to_a_tenth_of_a_millisecond(monkeypatch):
    monkeypatch.setattr("worker.jobs.claimed.time.monotonic", lambda: 112.123456)
    assert outcome_of(Result(held=claimed(), made=MADE)).timing.finish_s == 1.6235


def test_what_was_made_and_not_stored_has_failed():
    outcome = outcome_of(Result(held=claimed(), made=MADE, error=ValueError("a bug")))
    assert outcome.status is JobStatus.FAILED
    assert outcome_of(Result(held=claimed())).status is JobStatus.FAILED, "nor was it made"
    assert JobEnding().images == 0
