"""A job that was deleted stays deleted, whatever its worker, upkeep or its tenant still does."""

from collections.abc import Callable

import pytest

from core.errors import NotFound
from core.job import Claim, JobStatus, Progress
from core.latents import LatentKey, Lender
from storage.boards.reusable_latents import AnnouncedLenders, announce
from storage.jobs.leases import Leases, Outcome
from storage.redis.keys import DELETED
from tests.contract.house import House, RedisHouse, id_of, new_job

DONE = Outcome(status=JobStatus.SUCCEEDED)


async def delete(house: House, job_id: str = "j1") -> None:
    """Do what `DELETE /v1/jobs/{id}` does."""
    await house.jobs.cancel(job_id, "t")
    assert await house.jobs.forget(job_id)


async def assert_gone(house: House) -> None:
    with pytest.raises(NotFound):
        await house.jobs.get("j1")
    assert not (await house.jobs.list("t")).jobs
    assert house.problems() == []
    if isinstance(house, RedisHouse):
        assert not house.sync.exists("job:j1", "events:j1", "preview:j1")


LATE: dict[str, Callable[[Leases, Claim], object]] = {
    "beats": lambda leases, claim: leases.beat({"j1": claim.fence}),
    "tells": lambda leases, _: leases.progress(
        {"j1": Progress(step=1, steps=2)}, {"j1": '{"step":1,"preview":"p"}'}
    ),
    "finishes": lambda leases, claim: leases.finish("j1", claim.fence, DONE),
    "releases": lambda leases, claim: leases.release({"j1": claim.fence}),
    "forfeits": lambda leases, claim: leases.forfeit({"j1": claim.fence}),
    "isolates": lambda leases, claim: leases.isolate("j1", claim.fence),
    "claims": lambda leases, _: leases.claim("j1"),
}


@pytest.mark.parametrize("late", LATE)
async def test_its_worker_does_not_bring_it_back(house: House, late: str) -> None:
    await house.jobs.submit([new_job("j1")])
    leases = house.leases()
    claim = leases.claim("j1")
    assert claim is not None
    await delete(house)
    assert LATE[late](leases, claim) in (None, False, 0, (), [], ["j1"])
    await assert_gone(house)
    sweeper = house.sweeper()
    await sweeper.reap()
    await sweeper.republish(0.0)
    await assert_gone(house)


async def test_its_message_is_nobodys(house: House) -> None:
    await house.jobs.submit([new_job("j1"), new_job("j2")])
    await delete(house)
    leases, claimed = house.leases(), []
    while (popped := id_of(house.pop("gen.m"))) is not None:
        claim = leases.claim(popped)
        claimed += [] if claim is None else [claim.job.id]
    assert claimed == ["j2"]
    await assert_only(house, "j2")


async def test_its_tenant_cannot_stop_or_retry_it(house: House) -> None:
    await house.jobs.submit([new_job("j1")])
    await delete(house)
    for asked in (house.jobs.cancel("j1", "t"), house.jobs.retry("j1", "t", "")):
        with pytest.raises(NotFound):
            await asked
    assert not await house.jobs.forget("j1")
    await assert_gone(house)


async def test_without_an_archive_nothing_stays_of_it(real: RedisHouse) -> None:
    await real.jobs.submit([new_job("j1")])
    await delete(real)
    assert list(real.sync.scan_iter(match="*j1*", count=1000)) == []


async def test_its_latents_are_announced_no_more(real: RedisHouse) -> None:
    terms = LatentKey(model="m", width=64, height=64, steps=30, scheduler=None, is_guided=True)
    lender = Lender(id="j1", tenant="t", prompt="x", terms=terms, skips=(5,), num_bytes=10)
    await real.jobs.submit([new_job("j1")])
    assert announce(real.sync, lender)
    await delete(real)
    assert not announce(real.sync, lender)
    assert await AnnouncedLenders(real.client).take(9) == [lender]


async def made(real: RedisHouse, job_id: str) -> None:
    await real.jobs.submit([new_job(job_id)])
    leases = real.leases()
    claim = leases.claim(job_id)
    assert claim is not None and leases.finish(job_id, claim.fence, DONE)


async def test_the_scheduler_hears_whose_latents_were_deleted(real: RedisHouse) -> None:
    lenders = AnnouncedLenders(real.client)
    for job_id in ("j1", "j2", "j3"):
        await made(real, job_id)
    await real.jobs.submit([new_job("never begun")])
    await delete(real, "never begun")
    await delete(real, "j1")
    assert await real.sweeper().forget(["j2", "never heard of"]) == 1
    assert await lenders.take_deleted(1) == ["j1"]
    assert await lenders.take_deleted(9) == ["j2"]
    assert await lenders.take_deleted(9) == []


async def test_where_no_scheduler_hears_it_the_latest_are_kept(real: RedisHouse) -> None:
    real.sync.lpush(DELETED, *range(10_050))
    await made(real, "j1")
    await delete(real)
    assert real.sync.llen(DELETED) == 10_000
    assert real.sync.lindex(DELETED, 0) == b"j1"


async def test_one_that_runs_is_not_forgotten_before_it_has_ended(house: House) -> None:
    await house.jobs.submit([new_job("j1")])
    leases = house.leases()
    claim = leases.claim("j1")
    assert claim is not None
    assert not await house.jobs.forget("j1")
    assert leases.finish("j1", claim.fence, DONE)
    await delete(house)
    await assert_gone(house)


async def assert_only(house: House, job_id: str) -> None:
    assert [each.id for each in (await house.jobs.list("t")).jobs] == [job_id]
    assert house.problems() == []
