"""A worker that shuts down gives its jobs to others, with where they stand."""

import pytest

from core.job import JobStatus
from tests.unit.worker.house import House, States


@pytest.fixture
def house():
    return House()


def test_a_shutdown_gives_jobs_back_without_counting_the_attempt(house):
    job_id = house.submit(steps=50)
    house.take(job_id)
    house.engine.step()
    assert house.executor.hand_over.let_go() == 1
    house.run()
    house.finish()
    job = house.get(job_id)
    assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)
    assert job_id in house.store.pop("gen.m")


def test_a_shutdown_gives_back_what_takes_too_long_before_its_next_step(house):
    jobs = []
    for request in ({"steps": 2}, {"steps": 90}, {"steps": 2, "n": 4}):  # in slots for four
        jobs.append(house.submit(**request))
        house.take(jobs[-1])
        house.clock.now += 1.0
    soon, late, waiting = jobs
    house.engine.step()
    house.engine._batch.next_batch.step_s["m"] = 1.0
    assert house.executor.hand_over.let_go_late(5.0) == {late, waiting}
    house.run()
    house.finish()
    assert house.get(soon).status is JobStatus.SUCCEEDED
    for job_id in (late, waiting):
        assert (house.get(job_id).status, house.get(job_id).attempts) == (JobStatus.QUEUED, 0)


def test_a_shutdown_keeps_what_only_waits_to_be_stored(house):
    house.images.is_slow = True
    job_id = house.submit()
    house.take(job_id)
    house.run()
    assert house.executor.hand_over.let_go_late(5.0) == set()
    house.images.held.pop()()
    house.finish()
    assert house.get(job_id).status is JobStatus.SUCCEEDED


@pytest.mark.parametrize("in_time", [True, False])
def test_a_job_is_given_back_once_it_is_written_where_it_stands(in_time):
    states = States(in_time)
    house = House(states=states)
    job_id, other = house.submit(), house.submit()
    house.take(job_id)
    states.before = lambda: seen.append(house.get(job_id).status)
    seen = []
    assert house.executor.hand_over.let_go() == 1
    house.run()
    house.finish()
    assert seen == [JobStatus.RUNNING]
    assert house.get(job_id).status is house.get(other).status is JobStatus.QUEUED
    assert states.told == [("settle", job_id)]
