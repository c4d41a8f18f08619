"""A bell that stands for its queue: whoever hears it makes whose turn it is there."""

import asyncio

import pytest

from core.job import JobStatus, Priority
from core.placement import queue_of
from storage.redis.script import call_sync, load
from tasks.messages import QUEUE_PRIORITY
from tests.contract.house import House, RedisHouse, new_job
from tests.contract.test_jobs import submit

QUEUE = queue_of("m")


async def test_a_bell_makes_whose_turn_it_is_whatever_job_it_names(house: House) -> None:
    await submit(house, new_job("j1"), new_job("j2"))
    claimed = house.leases().claim("j2", rung=QUEUE)
    assert claimed is not None and claimed.job.id == "j1"


async def test_a_bell_of_a_job_that_is_made_or_unknown_makes_the_next(house: House) -> None:
    await submit(house, new_job("j1"), new_job("j2"), new_job("j3"))
    leases = house.leases()
    names = [leases.claim(named, rung=QUEUE) for named in ("j1", "j1", "nobody")]
    assert [claim.job.id for claim in names if claim is not None] == ["j1", "j2", "j3"]


async def test_a_bell_too_many_makes_nothing(house: House) -> None:
    await submit(house, new_job("j1"))
    leases = house.leases()
    assert leases.claim("j1", rung=QUEUE) is not None
    assert leases.claim("j1", rung=QUEUE) is None
    assert leases.claim("j1", rung=queue_of("other")) is None


async def test_a_bell_makes_the_first_priority_first(house: House) -> None:
    late = QUEUE_PRIORITY[Priority.BATCH]
    await submit(house, new_job("batch", priority=late), new_job("now"))
    claimed = house.leases().claim("batch", rung=QUEUE)
    assert claimed is not None and claimed.job.id == "now"


@pytest.mark.parametrize("rung", ["", QUEUE])
@pytest.mark.parametrize("tenant", ["t", "other"])
async def test_a_job_that_is_refused_is_that_job_and_no_other(
    house: House, tenant: str, rung: str
) -> None:
    await submit(house, new_job("j1"), new_job("j2", tenant=tenant))
    claimed = house.leases().claim("j2", is_exact=True, rung=rung)
    assert claimed is not None and claimed.job.id == "j2"
    assert (await house.jobs.get("j1")).status is JobStatus.QUEUED


async def test_a_bell_whose_answer_was_lost_is_answered_alike(real: RedisHouse) -> None:
    await submit(real, new_job("j1"), new_job("j2"))
    args = ("j2", "w1", 60_000, "token", 0, 0, "cpu", QUEUE)
    first, again = (call_sync(real.sync, load("claim"), *args)[0] for _ in range(2))
    assert first == again == b"j1"


async def test_what_a_lost_answer_gave_is_not_told_again_once_another_worker_has_it(
    real: RedisHouse,
) -> None:
    await submit(real, new_job("j1"), new_job("j2"))
    args = ("j2", "w1", 10, "token", 0, 0, "cpu", QUEUE)
    assert call_sync(real.sync, load("claim"), *args)[0] == b"j1"
    await asyncio.sleep(0.02)
    assert (await real.sweeper().reap()).back == ("j1",)
    taken = real.leases("w2").claim("j1", is_exact=True)
    assert taken is not None and taken.job.id == "j1"
    assert call_sync(real.sync, load("claim"), *args)[0] == b"j2"


@pytest.mark.parametrize("rung", ["", QUEUE])
async def test_the_turn_of_a_job_that_does_not_wait_is_passed_over(
    real: RedisHouse, rung: str
) -> None:
    await submit(real, new_job("j1"))
    real.sync.zadd(f"turns:{QUEUE}", {"gone": -1})
    claimed = real.leases().claim("j1", rung=rung)
    assert claimed is not None and claimed.job.id == "j1"
    assert real.sync.zcard(f"turns:{QUEUE}") == 0
