"""Which ends of jobs break what their application was promised?"""

import asyncio
from dataclasses import replace

import pytest

from core.job import Failure, JobStatus
from storage.jobs.leases import Outcome
from storage.jobs.submit import NewJob
from tests.contract.house import House, new_job

DONE = Outcome(status=JobStatus.SUCCEEDED)
FAILED = Outcome(status=JobStatus.FAILED, failure=Failure(type="x", title="x"))


def promised(job: NewJob, slo_s: float | None) -> NewJob:
    return replace(job, request=replace(job.request, slo_s=slo_s))


async def made(house: House, job: NewJob, outcome: Outcome = DONE, *, after_s: float = 0.0) -> None:
    await house.jobs.submit([job])
    await asyncio.sleep(after_s)
    leases = house.leases()
    claim = leases.claim(job.id)
    assert claim is not None and leases.finish(job.id, claim.fence, outcome)


async def violations(house: House) -> int:
    return (await house.stats()).get("slo_violations", 0)


@pytest.mark.parametrize(("slo_s", "found"), [(60.0, 0), (0.005, 1), (None, 0)])
async def test_a_job_that_took_longer_than_promised_counts(
    house: House, slo_s: float | None, found: int
) -> None:
    await made(house, promised(new_job(), slo_s), after_s=0.01)
    assert await violations(house) == found


async def test_a_job_that_failed_counts_however_fast(house: House) -> None:
    await made(house, promised(new_job(), 60.0), FAILED)
    assert await violations(house) == 1


async def test_a_job_that_expired_counts_and_one_that_was_canceled_does_not(house: House) -> None:
    late, unwanted = new_job("late", deadline_s=0.002), new_job("unwanted")
    await house.jobs.submit([promised(late, 60.0), promised(unwanted, 0.001)])
    await asyncio.sleep(0.005)
    await house.jobs.cancel("unwanted")
    await house.sweeper().expire()
    assert await violations(house) == 1


@pytest.mark.parametrize(("priority", "count"), [(0, 2), (6, 3), (9, 4)])
async def test_ahead_of_a_new_job_is_what_its_priority_does_not_overtake(
    house: House, priority: int, count: int
) -> None:
    jobs = [("a", 0), ("b", 0), ("c", 6), ("d", 9)]
    await house.jobs.submit([new_job(name, priority=each) for name, each in jobs])
    await house.jobs.submit([new_job("other", model="n")])
    assert await house.jobs.ahead("gen.m", priority, "t") == count
