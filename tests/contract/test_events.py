import asyncio
from collections.abc import AsyncIterator

import pytest

from core.errors import NotFound
from core.job import Claim, JobEvent, JobStatus, Progress
from storage.jobs.leases import Leases, Outcome
from storage.redis.keys import bell_channel, events_key
from tests.contract.house import House, RedisHouse, new_job

DONE = Outcome(status=JobStatus.SUCCEEDED)


async def collect(events: AsyncIterator[JobEvent]) -> list[tuple[str, str]]:
    return [(e.id, e.event) async for e in events]


async def started(house: House, job_id: str = "j1") -> tuple[Leases, Claim]:
    await house.jobs.submit([new_job(job_id)])
    leases = house.leases()
    claim = leases.claim(job_id)
    assert claim is not None
    return leases, claim


async def test_a_follower_sees_every_event_as_it_happens(house: House) -> None:
    await house.jobs.submit([new_job()])
    leases = house.leases()
    loop = asyncio.get_running_loop()
    seen: list[tuple[str, float]] = []

    async def follow() -> None:
        async for event in house.events.follow("j1"):
            seen.append((event.event, loop.time()))

    follower = asyncio.create_task(follow())
    await asyncio.sleep(0.05)
    marks = []
    claim = leases.claim("j1")
    assert claim is not None
    for step in (1, 2):
        marks.append(loop.time())
        await asyncio.sleep(0.03)
        leases.progress({"j1": Progress(step=step, steps=2)})
    marks += [loop.time(), loop.time()]
    await asyncio.sleep(0.03)
    leases.finish("j1", claim.fence, DONE)
    await asyncio.wait_for(follower, 5.0)
    assert [event for event, _ in seen] == ["status", "progress", "progress", "done"]
    delays = [at - mark for (_, at), mark in zip(seen, marks, strict=True)]
    assert max(delays) < 0.9, "the bell rings: nobody waits for the safety poll"


async def test_following_a_finished_job_tells_it_all_and_ends(house: House) -> None:
    leases, claim = await started(house)
    leases.finish("j1", claim.fence, DONE)
    assert [e for _, e in await collect(house.events.follow("j1"))] == ["status", "done"]


async def test_a_follower_resumes_after_the_last_event_it_saw(house: House) -> None:
    leases, claim = await started(house)
    for step in range(1, 5):
        leases.progress({"j1": Progress(step=step, steps=4)})
    leases.finish("j1", claim.fence, DONE)
    everything = await collect(house.events.follow("j1"))
    for i, (name, _) in enumerate(everything):
        assert await collect(house.events.follow("j1", after=name)) == everything[i + 1 :]
    assert await collect(house.events.follow("j1", after="nonsense")) == everything


async def test_many_followers_share_one_hub(house: House) -> None:
    names = [f"j{i}" for i in range(20)]
    claims = [await started(house, name) for name in names]
    followers = [
        asyncio.create_task(collect(house.events.follow(name))) for name in names for _ in "ab"
    ]
    await asyncio.sleep(0.05)
    for name, (leases, claim) in zip(names, claims, strict=True):
        leases.finish(name, claim.fence, DONE)
    for seen in await asyncio.wait_for(asyncio.gather(*followers), 5.0):
        assert [event for _, event in seen] == ["status", "done"]


async def test_a_follower_may_leave_at_any_time(house: House) -> None:
    await started(house)
    events = house.events.follow("j1")
    assert (await anext(events)).event == "status"
    await events.aclose()  # type: ignore[attr-defined]


async def test_nobody_can_follow_a_job_that_is_not_there(house: House) -> None:
    with pytest.raises(NotFound):
        await collect(house.events.follow("unknown"))
    with pytest.raises(NotFound):
        await house.events.wait("unknown", 1.0)


async def test_waiting_ends_when_the_job_does(house: House) -> None:
    leases, claim = await started(house)
    waiter = asyncio.create_task(house.events.wait("j1", 30.0))
    await asyncio.sleep(0.03)
    leases.progress({"j1": Progress(step=1, steps=4)})
    await asyncio.sleep(0.03)
    assert not waiter.done()
    leases.finish("j1", claim.fence, DONE)
    await asyncio.wait_for(waiter, 0.9)
    await asyncio.wait_for(house.events.wait("j1", 30.0), 0.9)


async def test_waiting_ends_when_the_time_is_up(house: House) -> None:
    await started(house)
    await asyncio.wait_for(house.events.wait("j1", 0.05), 2.0)


async def test_a_lost_ring_delays_a_follower_but_never_hangs_it(real: RedisHouse) -> None:
    leases, claim = await started(real)
    follower = asyncio.create_task(collect(real.events.follow("j1")))
    waiter = asyncio.create_task(real.events.wait("j1", 30.0))
    await asyncio.sleep(0.05)
    await real.events.close()
    leases.finish("j1", claim.fence, DONE)
    seen, _ = await asyncio.wait_for(asyncio.gather(follower, waiter), 3.0)
    assert seen[-1][1] == "done"


async def test_a_hub_whose_connection_is_cut_listens_again(real: RedisHouse) -> None:
    leases, claim = await started(real)
    follower = asyncio.create_task(collect(real.events.follow("j1")))
    await asyncio.sleep(0.05)
    real.sync.execute_command("CLIENT", "KILL", "TYPE", "pubsub")  # type: ignore[no-untyped-call]
    await asyncio.sleep(0.6)
    numsub = real.sync.execute_command("PUBSUB", "NUMSUB", bell_channel("j1"))  # type: ignore[no-untyped-call]
    assert int(dict([numsub[0]] if isinstance(numsub[0], tuple) else [numsub])[b"bell:j1"]) == 1
    leases.finish("j1", claim.fence, DONE)
    assert (await asyncio.wait_for(follower, 3.0))[-1][1] == "done"


def subscriptions(real: RedisHouse) -> list[int]:
    """Count those of each connection that has any."""
    return [sub for client in real.sync.client_list() if (sub := int(client["sub"])) > 0]


async def test_one_connection_serves_all_followers(real: RedisHouse) -> None:
    names = [f"j{i}" for i in range(10)]
    for name in names:
        await started(real, name)
    followers = [asyncio.create_task(collect(real.events.follow(name))) for name in names]
    async with asyncio.timeout(10.0):
        while sum(subscribed := subscriptions(real)) < len(names):
            await asyncio.sleep(0.02)
    assert len(subscribed) == 1
    for name in names:
        await real.jobs.cancel(name)
    await asyncio.wait_for(asyncio.gather(*followers), 3.0)


async def test_a_stream_is_capped_and_outlived_by_the_record(real: RedisHouse) -> None:
    leases, claim = await started(real)
    for step in range(1500):
        leases.progress({"j1": Progress(step=step, steps=1500)})
    assert int(real.sync.xlen(events_key("j1"))) <= 700
    leases.finish("j1", claim.fence, DONE)
    assert 0 < int(real.sync.ttl(events_key("j1"))) <= 86400
    real.sync.delete(events_key("j1"))
    assert [e for _, e in await collect(real.events.follow("j1"))] == ["done"]
