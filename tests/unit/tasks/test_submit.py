import asyncio

import pytest

from core.errors import Conflict, StoreUnavailable, TooManyRequests
from storage.fakes import MemoryJobs
from storage.jobs.submit import Submitted
from tasks.submit import MAX_BATCH, Submitter
from tests.rig import new_job


class Trips:
    """A store that notes how many jobs each trip carried, and can be held or made to fail."""

    def __init__(self, answers=None, error=None):
        self.sizes = []
        self.may_answer = asyncio.Event()
        self.answers, self.error = answers or {}, error

    async def submit(self, jobs):
        self.sizes.append(len(jobs))
        await self.may_answer.wait()
        if self.error:
            raise self.error
        return [self.answers.get(job.id, Submitted(id=job.id, is_new=True)) for job in jobs]


async def submit_all(submitter, jobs):
    tasks = [asyncio.create_task(submitter.submit(job)) for job in jobs]
    await asyncio.sleep(0)
    return tasks


async def test_what_arrives_while_a_trip_is_in_flight_shares_the_next_one():
    store = Trips()
    submitter = Submitter(store)
    first = await submit_all(submitter, [new_job()])
    await asyncio.sleep(0)
    later = await submit_all(submitter, [new_job() for _ in range(MAX_BATCH + 1)])
    store.may_answer.set()
    await asyncio.gather(*first, *later)
    assert store.sizes == [1, MAX_BATCH, 1]


async def test_each_submit_gets_its_own_answer():
    good, taken, full = new_job(), new_job(), new_job()
    store = Trips({taken.id: Conflict("used"), full.id: TooManyRequests("full", 3.0)})
    store.may_answer.set()
    done = await asyncio.gather(
        *await submit_all(Submitter(store), [good, taken, full]), return_exceptions=True
    )
    assert done[0] == Submitted(id=good.id, is_new=True)
    assert isinstance(done[1], Conflict)
    assert done[2].retry_after_s == 3.0


async def test_a_trip_that_fails_fails_its_own_jobs_only():
    store = Trips(error=StoreUnavailable("away"))
    store.may_answer.set()
    submitter = Submitter(store)
    with pytest.raises(StoreUnavailable):
        await submitter.submit(new_job())
    store.error = None
    assert (await submitter.submit(new_job())).is_new


async def test_a_client_that_hangs_up_takes_nobody_with_it():
    store = Trips()
    submitter = Submitter(store)
    tasks = await submit_all(submitter, [new_job(), new_job()])
    tasks[0].cancel()
    store.may_answer.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert done[1].is_new


async def test_a_submitted_job_is_in_the_store():
    store = MemoryJobs()
    job = new_job()
    await Submitter(store).submit(job)
    assert (await store.get(job.id)).request == job.request
