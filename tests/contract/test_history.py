import asyncio
from dataclasses import replace

from core.boards.sample import ServiceSample
from core.job import JobStatus
from storage.jobs.leases import Outcome
from storage.jobs.sweeps import Sweeper
from tests.contract.house import MAX_SAMPLES, House, RedisHouse, new_job

SAMPLE = ServiceSample(
    counters={"submitted": 3, "jobs:generate:succeeded": 2, "level:base@10": 2},
    devices={"NVIDIA H100": 2},
    busy=1,
    running=3,
    slots=16,
    waiting=1,
    oldest_s=0.25,
    forecast=0.5,
    saturation=0.0,
    p50_s=1.5,
    p95_s=2.5,
    quality=0.8,
    scored=1,
)


async def test_samples_are_read_in_the_order_they_came_with_the_time_of_the_store(
    house: House,
) -> None:
    assert await house.history.list() == []
    assert await house.history.last() is None
    await house.history.add(SAMPLE)
    await house.history.add(ServiceSample(at=1.0))
    first, second = await house.history.list()
    assert replace(first, at=0.0) == SAMPLE
    assert replace(second, at=0.0) == ServiceSample()
    assert 1.7e9 < first.at <= second.at
    assert await house.history.last() == second


async def test_no_more_samples_are_kept_than_may_be_and_the_oldest_go(house: House) -> None:
    for number in range(MAX_SAMPLES + 2):
        await house.history.add(ServiceSample(busy=number))
    assert [each.busy for each in await house.history.list()] == [2, 3, 4]


async def test_only_what_succeeded_since_then_tells_how_long_jobs_take(lately: House) -> None:
    house = lately
    sweeper, leases = house.sweeper(), house.leases()
    assert await sweeper.find_latencies(0.0, 10) == []
    await house.jobs.submit([new_job(name) for name in ("early", "late", "failed", "canceled")])
    await asyncio.sleep(0.02)
    for name, status in {"early": JobStatus.SUCCEEDED, "failed": JobStatus.FAILED}.items():
        claim = leases.claim(name, is_exact=True)
        assert claim is not None
        leases.finish(name, claim.fence, Outcome(status=status))
    await house.jobs.cancel("canceled")
    since = max(each.at for each in await sweeper.find_finished(0.0, 10))
    await asyncio.sleep(0.01)
    claim = leases.claim("late", is_exact=True)
    assert claim is not None
    leases.finish("late", claim.fence, Outcome(status=JobStatus.SUCCEEDED))
    late, early = await sweeper.find_latencies(0.0, 10)
    assert 0.019 < early < late < 10
    assert await sweeper.find_latencies(since, 10) == [late]
    assert await sweeper.find_latencies(0.0, 1) == [late]


async def test_the_time_of_samples_is_what_upkeep_takes_for_now(real: RedisHouse) -> None:
    sweeper = Sweeper(real.client, max_attempts=3)
    before = await sweeper.now()
    await real.history.add(SAMPLE)
    last, after = await real.history.last(), await sweeper.now()
    assert last is not None and before <= last.at <= after
