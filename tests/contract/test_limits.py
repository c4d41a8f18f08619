"""Limits of tenants, checked where jobs are accepted: no burst exceeds them, and 429 comes true."""

import asyncio
from dataclasses import replace
from itertools import count
from math import ceil
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import LimitReached
from core.job import JobStatus, StoredImage
from core.tenants.limits import DAY_S, Standing, TenantLimits
from storage.fakes.account import Account, over, standing
from storage.jobs.leases import Outcome
from storage.jobs.submit import NewJob, Submitted
from tests.contract.house import House, new_job
from tests.contract.test_uploads import an_upload


def limited(job_id: str, limits: TenantLimits, **options: object) -> NewJob:
    brings, leaves = (options.pop(name, 0) for name in ("brings_bytes", "leaves_bytes"))
    job = new_job(job_id, **options)  # type: ignore[arg-type]
    sizes = {"brings_bytes": brings, "leaves_bytes": leaves}
    return replace(job, limits=limits, retention_s=1000.0, **sizes)  # type: ignore[arg-type]


def an_image(size_bytes: int) -> StoredImage:
    return StoredImage(
        key="t/j/1/0.png", width=1, height=1, seed=0, sha256="", size_bytes=size_bytes
    )


def end(house: House, job_id: str, status: JobStatus = JobStatus.SUCCEEDED, size: int = 0) -> None:
    claim = house.leases().claim(job_id, is_exact=True)
    assert claim is not None
    images = (an_image(size),) if status is JobStatus.SUCCEEDED else ()
    outcome = Outcome(status=status, images=images, device_s=1.5)
    assert house.leases().finish(job_id, claim.fence, outcome)


async def send(house: House, *jobs: NewJob) -> list[Submitted]:
    answers = await house.jobs.submit(jobs)
    return [answer for answer in answers if isinstance(answer, Submitted)]


async def refusal(house: House, job: NewJob) -> LimitReached:
    (answer,) = await house.jobs.submit([job])
    assert isinstance(answer, LimitReached)
    return answer


async def test_a_burst_is_cut_at_the_rate_and_the_rest_is_told_when(house: House) -> None:
    limits = TenantLimits(jobs_per_s=0.5, burst=3)
    answers = await house.jobs.submit([limited(f"j{i}", limits) for i in range(10)])
    sent = [answer for answer in answers if isinstance(answer, Submitted)]
    assert [each.id for each in sent] == ["j0", "j1", "j2"]
    standing = sent[-1].standing
    assert standing is not None and standing.free_jobs == 0
    assert 5.0 < standing.full_in_s <= 6.0
    error = answers[-1]
    assert isinstance(error, LimitReached)
    assert error.reason == "jobs_per_s" and error.standing is not None
    assert error.retry_after_s > 1.0


async def test_who_comes_back_when_told_is_accepted(house: House) -> None:
    limits = TenantLimits(jobs_per_s=20.0, burst=1)
    _, error = await house.jobs.submit([limited(name, limits) for name in ("first", "second")])
    assert isinstance(error, LimitReached) and 0 < error.retry_after_s <= 0.05
    await asyncio.sleep(error.retry_after_s + 0.002)
    assert await send(house, limited("second", limits))


async def test_jobs_that_have_not_ended_are_limited_however_they_end(house: House) -> None:
    limits = TenantLimits(open_jobs=2)
    many = [limited(f"j{i}", limits) for i in range(5)]
    assert len(await send(house, *many)) == 2
    assert (await refusal(house, many[2])).reason == "open_jobs"
    end(house, "j0", JobStatus.FAILED)
    await house.jobs.cancel("j1")
    assert [each.id for each in await send(house, *many[2:])] == ["j2", "j3"]


async def test_images_of_a_day_that_are_not_made_may_be_asked_for_again(house: House) -> None:
    limits = TenantLimits(images_a_day=5)
    await send(house, limited("a", limits, n=4))
    error = await refusal(house, limited("b", limits, n=2))
    assert error.reason == "images_a_day" and error.retry_after_s <= DAY_S
    assert len(await send(house, limited("c", limits, n=1))) == 1
    await house.jobs.cancel("a")
    (sent,) = await send(house, limited("b", limits, n=2))
    assert sent.standing is not None and sent.standing.images == 3
    end(house, "b")
    assert (await refusal(house, limited("d", limits, n=3))).reason == "images_a_day"


async def test_bytes_are_promised_kept_and_given_back(house: House) -> None:
    limits = TenantLimits(kept_bytes=1000)
    await send(house, limited("a", limits, brings_bytes=100, leaves_bytes=500))
    error = await refusal(house, limited("b", limits, leaves_bytes=401))
    assert error.reason == "kept_bytes"
    end(house, "a", size=200)
    assert await send(house, limited("b", limits, leaves_bytes=700))
    await house.jobs.cancel("b")
    with pytest.raises(LimitReached):
        await house.uploads.add(replace(an_upload(), size_bytes=701), limits)
    await house.uploads.add(replace(an_upload(), size_bytes=700), limits)
    assert (await refusal(house, limited("c", limits, leaves_bytes=1))).reason == "kept_bytes"
    upload = an_upload()
    await house.uploads.remove(upload.kind, upload.id, upload.tenant)
    assert await send(house, limited("c", limits, leaves_bytes=700))
    await house.jobs.cancel("c")
    assert await house.jobs.forget("a")
    assert await send(house, limited("d", limits, leaves_bytes=1000))


async def test_limits_are_each_tenants_own(house: House) -> None:
    limits = TenantLimits(jobs_per_s=0.01, burst=1, open_jobs=1, images_a_day=1)
    await send(house, limited("a", limits))
    assert await send(house, limited("b", limits, tenant="u"))


async def test_a_repeated_request_is_answered_and_not_counted(house: House) -> None:
    limits = TenantLimits(jobs_per_s=0.01, burst=1, open_jobs=1)
    job = limited("a", limits, key="k")
    await send(house, job)
    assert await send(house, replace(job, id="b")) == [Submitted(id="a", is_new=False)]


async def test_a_refused_job_leaves_nothing(house: House) -> None:
    limits = TenantLimits(open_jobs=1)
    await send(house, limited("a", limits))
    await refusal(house, limited("b", limits, brings_bytes=5, leaves_bytes=7))
    assert [job.id for job in (await house.jobs.list("t")).jobs] == ["a"]
    assert len(house.messages("gen.m")) == 1


async def test_a_buried_job_that_is_tried_again_is_open_again(house: House) -> None:
    limits = TenantLimits(open_jobs=1)
    await send(house, limited("a", limits, leaves_bytes=10))
    claim = house.leases(lease_s=0.0).claim("a")
    assert claim is not None
    house.leases().forfeit({"a": claim.fence})
    await house.sweeper(max_attempts=1).reap()
    await house.jobs.retry("a", "t", "message")
    assert (await refusal(house, limited("b", limits))).reason == "open_jobs"
    await house.jobs.cancel("a")
    assert await send(house, limited("b", limits))


NUMBERS = count()


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    most=st.integers(1, 6),
    acts=st.lists(st.tuples(st.sampled_from("scfx"), st.integers(0, 9)), max_size=40),
)
async def test_however_jobs_come_and_end_no_more_are_open_than_may_be(
    house: House, most: int, acts: list[tuple[str, int]]
) -> None:
    tenant, limits = f"t{next(NUMBERS)}", TenantLimits(open_jobs=most)
    open_: list[str] = []
    for what, number in acts:
        if what == "s":
            jobs = [limited(f"j{next(NUMBERS)}", limits, tenant=tenant) for _ in range(number)]
            sent = await send(house, *jobs)
            assert len(sent) == min(number, most - len(open_))
            open_ += [each.id for each in sent]
        elif open_:
            job_id = open_.pop(number % len(open_))
            if what == "c":
                await house.jobs.cancel(job_id)
            else:
                end(house, job_id, JobStatus.SUCCEEDED if what == "f" else JobStatus.FAILED)
    assert house.problems() == []


@given(
    rate=st.floats(0.05, 50.0),
    burst=st.integers(1, 50),
    crowd=st.integers(2, 60),
    seed=st.integers(0, 2**32),
)
def test_all_who_come_back_when_they_were_told_are_accepted(
    rate: float, burst: int, crowd: int, seed: int
) -> None:
    """Whole seconds, as `Retry-After` says them; however many were refused at once.

    Nobody can tell who was told from who comes anew: each newcomer that takes a place meanwhile
    may cost one of them another wait.
    """
    account, random = Account(), Random(seed)
    limits = TenantLimits(jobs_per_s=rate, burst=burst)
    waiting, taken, now = [], 0, 1000.0
    for _ in range(burst + crowd):
        name, wait_s = over(account, limits, now, 1, 0)
        if name and wait_s < 60.0 - 1 / rate:  # later places are not told apart
            waiting.append(now + ceil(wait_s))
        taken += not name and bool(waiting)
        now += random.choice([0.0, 0.0, 0.001])
    refused = [at for at in sorted(waiting) if over(account, limits, at, 1, 0) != ("", 0.0)]
    assert len(refused) <= taken


def test_a_standing_is_what_is_left() -> None:
    account, limits = Account(), TenantLimits(jobs_per_s=2.0, burst=4)
    for _ in range(3):
        over(account, limits, 0.0, 1, 0)
    told = standing(account, limits, 0.5)
    assert told == Standing(
        limits=limits, full_in_s=1.0, free_jobs=2, open_jobs=0, images=0, day_left_s=DAY_S - 0.5
    )
