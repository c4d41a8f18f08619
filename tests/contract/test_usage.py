"""What tenants use is counted once for each job, at its end, however that comes."""

import time
from collections import Counter
from dataclasses import replace
from datetime import date
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.job import JobStatus, Progress
from core.tenants.limits import UNLIMITED
from storage.jobs.leases import Outcome
from storage.jobs.submit import NewJob
from storage.tenants.usage import DayUsage, cost_of, day_of
from tests.contract.house import House, new_job
from tests.contract.test_limits import an_image, end, limited, send


def today() -> date:
    return day_of(time.time())


async def used(house: House, tenant: str = "t") -> DayUsage | None:
    """Read today; a test that is run at midnight reads yesterday as well."""
    found = await house.usage.read(tenant, date.fromordinal(today().toordinal() - 1), today())
    return found[-1] if found else None


async def test_of_nothing_nothing_is_told(house: House) -> None:
    assert await used(house) is None
    assert (await house.usage.kept("t")).kept_bytes == 0


async def test_images_jobs_and_time_are_counted_at_the_end(house: House) -> None:
    await send(house, limited("a", UNLIMITED, n=3, brings_bytes=7, leaves_bytes=100))
    assert (await house.usage.kept("t")).open_jobs == 1
    end(house, "a", size=50)
    told = await used(house)
    assert told is not None
    assert (told.images, told.jobs, told.device_s) == (3, {JobStatus.SUCCEEDED: 1}, {"cpu": 1.5})
    kept = await house.usage.kept("t")
    assert (kept.kept_bytes, kept.open_jobs) == (57, 0)
    assert await house.jobs.forget("a")
    assert (await house.usage.kept("t")).kept_bytes == 0
    assert await used(house) == told


async def test_an_end_that_says_nothing_of_time_leaves_what_was_said_last(house: House) -> None:
    await send(house, new_job("a"))
    leases = house.leases()
    claim = leases.claim("a")
    leases.progress({"a": Progress(step=1, steps=4, device_s=0.25)})
    assert claim and leases.finish("a", claim.fence, Outcome(status=JobStatus.FAILED))
    told = await used(house)
    assert told is not None and told.device_s == {"cpu": 0.25}


async def test_a_job_that_ends_before_its_first_step_has_used_no_time(house: House) -> None:
    await send(house, new_job("a"))
    assert house.leases().claim("a")
    await house.jobs.cancel("a")
    told = await used(house)
    assert told is not None and sum(told.device_s.values()) == 0.0


async def test_a_job_that_is_canceled_has_used_what_its_worker_said_last(house: House) -> None:
    await send(house, new_job("a"))
    leases = house.leases()
    assert leases.claim("a")
    leases.progress({"a": Progress(step=1, steps=4, device_s=0.25)})
    await house.jobs.cancel("a")
    told = await used(house)
    assert told is not None and told.device_s == {"cpu": 0.25}
    assert told.jobs == {JobStatus.CANCELED: 1} and told.images == 0


async def test_an_attempt_whose_worker_was_lost_costs_nothing(house: House) -> None:
    await send(house, new_job("a"))
    lost = house.leases(lease_s=0.0)
    claim = lost.claim("a")
    assert claim is not None
    lost.progress({"a": Progress(step=1, steps=4, device_s=9.0)})
    lost.forfeit({"a": claim.fence})
    await house.sweeper().reap()
    end(house, "a")
    told = await used(house)
    assert told is not None and told.device_s == {"cpu": 1.5}


async def test_a_job_that_is_dug_up_counts_once(house: House) -> None:
    await send(house, new_job("a"))
    claim = house.leases(lease_s=0.0).claim("a")
    assert claim is not None
    house.leases().forfeit({"a": claim.fence})
    await house.sweeper(max_attempts=1).reap()
    told = await used(house)
    assert told is not None and told.jobs == {JobStatus.FAILED: 1}
    await house.jobs.retry("a", "t", "message")
    end(house, "a")
    told = await used(house)
    assert told is not None and told.jobs == {JobStatus.SUCCEEDED: 1}


async def test_an_end_that_is_told_again_counts_once(house: House) -> None:
    await send(house, new_job("a"))
    leases = house.leases()
    claim = leases.claim("a")
    assert claim is not None
    outcome = Outcome(status=JobStatus.SUCCEEDED, images=(an_image(5),), device_s=1.0)
    assert leases.finish("a", claim.fence, outcome) and leases.finish("a", claim.fence, outcome)
    await house.jobs.cancel("a")
    told = await used(house)
    assert told is not None
    assert (told.images, told.jobs, told.device_s) == (1, {JobStatus.SUCCEEDED: 1}, {"cpu": 1.0})
    assert (await house.usage.kept("t")).kept_bytes == 5


NUMBERS = count()
ACTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["submit", "submit", "claim", "claim", "finish", "finish", "fail", "cancel"]
        )
        | st.sampled_from(["die", "retry", "expire", "forget"]),
        st.integers(0, 9),
    ),
    max_size=30,
)


class Tenancy:
    """One tenant, and what its account must say."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.name = f"t{next(NUMBERS)}"
        self.ids: list[str] = []
        self.fences: dict[str, int] = {}
        self.gone: Counter[JobStatus] = Counter()  #: ends of jobs that are forgotten
        self.images = 0
        self.leases = house.leases(max_attempts=2)

    async def act(self, what: str, number: int) -> None:
        """Do one thing."""
        if what == "submit":
            self.ids.append(f"j{next(NUMBERS)}")
            deadline_s = 0.001 if number == 9 else None
            await send(self.house, self._new(n=number % 3 + 1, deadline_s=deadline_s))
        elif self.ids:
            await getattr(self, f"_{what}")(self.ids[number % len(self.ids)])

    def _new(self, *, n: int, deadline_s: float | None) -> NewJob:
        job = new_job(self.ids[-1], tenant=self.name, n=n, deadline_s=deadline_s)
        return replace(job, brings_bytes=2, leaves_bytes=90)

    async def _claim(self, job_id: str) -> None:
        if (claim := self.leases.claim(job_id, is_exact=True)) is not None:
            self.fences[job_id] = claim.fence

    async def _finish(self, job_id: str, status: JobStatus = JobStatus.SUCCEEDED) -> None:
        before = (await self.house.jobs.get(job_id)).status
        made = (an_image(3),) if status is JobStatus.SUCCEEDED else ()
        outcome = Outcome(status=status, images=made, device_s=0.5)
        self.leases.finish(job_id, self.fences.get(job_id, 0), outcome)
        after = await self.house.jobs.get(job_id)
        if after.status is JobStatus.SUCCEEDED and before is JobStatus.RUNNING:
            self.images += after.request.n

    async def _fail(self, job_id: str) -> None:
        await self._finish(job_id, JobStatus.FAILED)

    async def _cancel(self, job_id: str) -> None:
        await self.house.jobs.cancel(job_id)

    async def _die(self, job_id: str) -> None:
        self.leases.forfeit({job_id: self.fences.get(job_id, 0)})
        await self.house.sweeper(max_attempts=2).reap()

    async def _expire(self, _: str) -> None:
        await self.house.sweeper().expire()

    async def _retry(self, job_id: str) -> None:
        if (await self.house.jobs.get(job_id)).is_buried:
            await self.house.jobs.retry(job_id, self.name, "message")

    async def _forget(self, job_id: str) -> None:
        status = (await self.house.jobs.get(job_id)).status
        if await self.house.jobs.forget(job_id):
            self.gone[status] += 1
            self.ids.remove(job_id)

    async def statuses(self) -> list[JobStatus]:
        return [(await self.house.jobs.get(job_id)).status for job_id in self.ids]


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(acts=ACTS)
async def test_whatever_happens_each_job_is_counted_once_at_its_end(
    house: House, acts: list[tuple[str, int]]
) -> None:
    tenancy = Tenancy(house)
    for what, number in acts:
        await tenancy.act(what, number)
    told, statuses = await used(house, tenancy.name), await tenancy.statuses()
    ended = tenancy.gone + Counter(status for status in statuses if status.is_terminal)
    assert (told.jobs if told else {}) == ended
    assert (told.images if told else 0) == tenancy.images
    kept = await house.usage.kept(tenancy.name)
    assert kept.open_jobs == sum(not status.is_terminal for status in statuses)
    left = statuses.count(JobStatus.SUCCEEDED)
    assert kept.kept_bytes == 2 * len(tenancy.ids) + 3 * left
    assert house.problems() == []


def test_a_cost_is_told_if_every_price_is_known() -> None:
    assert cost_of({"a": 1800.0, "b": 360.0}, {"a": 2.0, "b": 10.0}) == 2.0
    assert cost_of({}, {"a": 2.0}) == 0.0
    assert cost_of({"a": 1.0, "b": 1.0}, {"a": 2.0}) is None
    assert cost_of({}, {}) is None
