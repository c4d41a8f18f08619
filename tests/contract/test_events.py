import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from core.errors import NotFound
from core.job import Claim, JobEvent, JobStatus, Progress
from storage.jobs import events
from storage.jobs.leases import Leases, Outcome
from storage.redis.keys import bell_channel, events_key, job_key, preview_key
from tests.contract.house import House, RedisHouse, new_job

DONE = Outcome(status=JobStatus.SUCCEEDED)
PATIENCE_S = 60.0  #: what is told at all is told by then, on the slowest machine


@pytest.fixture
def only_bells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits is woken by a bell: looks without one come long after any test."""
    monkeypatch.setattr(events, "POLL_S", 10 * PATIENCE_S)


async def collect(events: AsyncIterator[JobEvent]) -> list[tuple[str, str]]:
    return [(e.id, e.event) async for e in events]


async def started(house: House, job_id: str = "j1") -> tuple[Leases, Claim]:
    await house.jobs.submit([new_job(job_id)])
    leases = house.leases()
    claim = leases.claim(job_id)
    assert claim is not None
    return leases, claim


@pytest.mark.usefixtures("only_bells")
async def test_a_follower_sees_every_event_as_it_happens(house: House) -> None:
    await house.jobs.submit([new_job()])
    await house.events.announce("j1")
    leases, follower = house.leases(), house.events.follow("j1")

    async def told_of(happening: Callable[[], object]) -> JobEvent:
        waiting = asyncio.ensure_future(anext(follower))
        await asyncio.sleep(0.03)
        happening()
        return await asyncio.wait_for(waiting, PATIENCE_S)

    assert (await told_of(lambda: leases.claim("j1"))).data["status"] == "running"
    for step in (1, 2):
        progress = {"j1": Progress(step=step, steps=2)}
        assert (await told_of(partial(leases.progress, progress))).data["step"] == step
    fence = (await house.jobs.get("j1")).fence
    assert (await told_of(lambda: leases.finish("j1", fence, DONE))).event == "done"
    assert await collect(follower) == []


async def test_following_a_finished_job_tells_it_all_and_ends(house: House) -> None:
    leases, claim = await started(house)
    leases.finish("j1", claim.fence, DONE)
    assert [e for _, e in await collect(house.events.follow("j1"))] == ["status", "done"]


async def test_a_follower_resumes_after_the_last_event_it_saw(house: House) -> None:
    leases, claim = await started(house)
    await house.events.announce("j1")
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
    for seen in await asyncio.wait_for(asyncio.gather(*followers), PATIENCE_S):
        assert [event for _, event in seen] == ["status", "done"]


async def test_a_follower_may_leave_at_any_time(house: House) -> None:
    await started(house)
    events = house.events.follow("j1")
    assert (await anext(events)).event == "status"
    await events.aclose()


async def test_followers_go_when_they_are_told_to_and_none_comes_after(house: House) -> None:
    await started(house)
    followers = [house.events.follow("j1") for _ in range(3)]
    assert [(await anext(each)).event for each in followers] == ["status"] * 3
    ends = [asyncio.create_task(collect(each)) for each in followers]
    waiting = asyncio.create_task(house.events.wait("j1", 10 * PATIENCE_S))
    await asyncio.sleep(0.05)
    house.events.end()
    async with asyncio.timeout(PATIENCE_S):
        assert [await each for each in ends] == [[]] * 3
        await waiting
        assert await collect(house.events.follow("j1")) == []
        await house.events.wait("j1", 60.0)


async def test_progress_is_told_while_somebody_follows_and_kept_always(house: House) -> None:
    leases, claim = await started(house)
    assert not leases.followed
    leases.beat({"j1": claim.fence}, {"j1": Progress(step=1, steps=9)})
    leases.beat({"j1": claim.fence}, {"j1": Progress(step=2, steps=9)})
    assert (await house.jobs.get("j1")).progress.step == 2
    await house.events.announce("j1")
    leases.beat({"j1": claim.fence})
    assert leases.followed == {"j1": False}
    leases.progress({"j1": Progress(step=3, steps=9)})
    leases.progress({"j1": Progress(step=3, steps=9)})
    leases.finish("j1", claim.fence, DONE)
    assert not leases.followed
    told = [(e.event, e.data.get("step")) async for e in house.events.follow("j1")]
    assert told == [("status", None), ("progress", 2), ("progress", 3), ("done", None)]


async def test_who_follows_before_a_claim_is_known_to_it(house: House) -> None:
    await house.jobs.submit([new_job(), new_job("j2", hook=("progress",)), new_job("j3")])
    await house.events.announce("j1", previews=True)
    leases = house.leases()
    assert all(leases.claim(job_id) for job_id in ("j1", "j2", "j3"))
    assert leases.followed == {"j1": True, "j2": False}


async def test_a_worker_is_told_at_once_that_somebody_follows(house: House) -> None:
    leases, _ = await started(house)
    list(leases.stops(0.02))
    await house.events.announce("j1", 0)
    await house.events.announce("j1")
    await house.events.announce("j1")
    await house.events.announce("j1", previews=True)
    stops = leases.stops(PATIENCE_S)
    assert [next(stops), next(stops)] == ["j1", "j1"], "for progress, and for previews"
    assert list(leases.stops(0.05)) == []


async def test_who_follows_late_is_told_what_was_before(house: House) -> None:
    leases, claim = await started(house)
    leases.release({"j1": claim.fence})
    again = leases.claim("j1")
    assert again is not None
    events = house.events.follow("j1")
    seen = [(await anext(events)).data["status"] for _ in range(3)]
    leases.finish("j1", again.fence, DONE)
    seen += [event.data["status"] async for event in events]
    assert seen == ["running", "queued", "running", "succeeded"]


async def test_a_job_that_nobody_follows_leaves_no_stream(real: RedisHouse) -> None:
    leases, claim = await started(real)
    leases.beat({"j1": claim.fence}, {"j1": Progress(step=2, steps=4)})
    leases.release({"j1": claim.fence})
    again = leases.claim("j1")
    assert again is not None and leases.finish("j1", again.fence, DONE)
    assert not real.sync.exists(events_key("j1"))
    everything = await collect(real.events.follow("j1"))
    assert [event for _, event in everything] == ["status"] * 3 + ["done"]
    assert not await collect(real.events.follow("j1", after=everything[-1][0]))


async def test_a_worker_learns_who_is_watched_and_shows_previews(house: House) -> None:
    (leases, claim), (_, other) = await started(house), await started(house, "j2")
    held = {"j1": claim.fence, "j2": other.fence}
    shown: list[dict[str, object]] = []

    async def follow() -> None:
        async for event in house.events.follow("j1", previews=True):
            shown.append(event.data)

    follower = asyncio.create_task(follow())
    async with asyncio.timeout(PATIENCE_S):
        while not leases.followed:
            await asyncio.sleep(0.01)
            leases.beat(held)
        assert leases.followed == {"j1": True}
        for step in (2, 3):
            preview = {"j1": f'{{"step":{step},"preview":"p{step}"}}'}
            leases.progress({"j1": Progress(step=step, steps=4)}, preview)
            while {"step": step, "steps": 4, "preview": f"p{step}"} not in shown:
                await asyncio.sleep(0.01)
        leases.progress({"j1": Progress(step=4, steps=4)})
        leases.finish("j1", claim.fence, DONE)
        await follower
    assert {"step": 4, "steps": 4} in shown, "each preview is shown once"
    plain = [event.data async for event in house.events.follow("j1")]
    assert not any("preview" in data for data in plain), "the stream keeps none"
    late = [e.data async for e in house.events.follow("j1", previews=True) if "preview" in e.data]
    assert late == [{"step": 4, "steps": 4, "preview": "p3"}], "who comes late sees the latest"
    leases.finish("j2", other.fence, DONE)


async def test_a_preview_of_a_claim_that_is_lost_is_not_shown(house: House) -> None:
    _, claim = await started(house)
    zombie = house.leases("w2")
    zombie.progress({"j1": Progress(step=3, steps=4)}, {"j1": '{"step":3,"preview":"p"}'})
    house.leases().finish("j1", claim.fence, DONE)
    seen = [event.data async for event in house.events.follow("j1", previews=True)]
    assert not any("preview" in data for data in seen)


async def test_previews_and_followers_end_by_themselves(real: RedisHouse) -> None:
    leases, claim = await started(real)
    await real.events.announce("j1", 60, previews=True)
    leases.progress({"j1": Progress(step=1, steps=4)}, {"j1": '{"step":1,"preview":"p"}'})
    assert leases.followed == {"j1": True}
    long_ago = {"followed": 1000, "previewed": 1000}
    real.sync.hset(job_key("j1"), mapping=long_ago)
    leases.progress({"j1": Progress(step=2, steps=4)})
    assert not leases.followed
    assert real.sync.xlen(events_key("j1")) == 2, "none of the second step"
    assert 0 < int(real.sync.ttl(preview_key("j1"))) <= 60
    leases.finish("j1", claim.fence, DONE)


async def test_nobody_can_follow_a_job_that_is_not_there(house: House) -> None:
    with pytest.raises(NotFound):
        await collect(house.events.follow("unknown"))
    with pytest.raises(NotFound):
        await house.events.wait("unknown", 1.0)


@pytest.mark.usefixtures("only_bells")
async def test_waiting_ends_when_the_job_does(house: House) -> None:
    leases, claim = await started(house)
    waiter = asyncio.create_task(house.events.wait("j1", 10 * PATIENCE_S))
    await asyncio.sleep(0.03)
    leases.progress({"j1": Progress(step=1, steps=4)})
    await asyncio.sleep(0.03)
    assert not waiter.done()
    leases.finish("j1", claim.fence, DONE)
    await asyncio.wait_for(waiter, PATIENCE_S)
    await asyncio.wait_for(house.events.wait("j1", 10 * PATIENCE_S), PATIENCE_S)


async def test_waiting_ends_when_the_time_is_up(house: House) -> None:
    await started(house)
    await asyncio.wait_for(house.events.wait("j1", 0.05), PATIENCE_S)


async def test_a_lost_ring_delays_a_follower_but_never_hangs_it(real: RedisHouse) -> None:
    leases, claim = await started(real)
    follower = asyncio.create_task(collect(real.events.follow("j1")))
    waiter = asyncio.create_task(real.events.wait("j1", 10 * PATIENCE_S))
    await asyncio.sleep(0.05)
    await real.events.close()
    leases.finish("j1", claim.fence, DONE)
    seen, _ = await asyncio.wait_for(asyncio.gather(follower, waiter), PATIENCE_S)
    assert seen[-1][1] == "done"


async def test_a_hub_whose_connection_is_cut_listens_again(real: RedisHouse) -> None:
    leases, claim = await started(real)
    follower = asyncio.create_task(collect(real.events.follow("j1")))
    async with asyncio.timeout(PATIENCE_S):
        while not is_subscribed(real, "j1"):
            await asyncio.sleep(0.02)
        real.sync.execute_command("CLIENT", "KILL", "TYPE", "pubsub")  # type: ignore[no-untyped-call]
        assert not is_subscribed(real, "j1")
        while not is_subscribed(real, "j1"):
            await asyncio.sleep(0.02)
        leases.finish("j1", claim.fence, DONE)
        assert (await follower)[-1][1] == "done"


def is_subscribed(real: RedisHouse, job_id: str) -> bool:
    channel = bell_channel(job_id)
    numsub = real.sync.execute_command("PUBSUB", "NUMSUB", channel)  # type: ignore[no-untyped-call]
    found = dict([numsub[0]] if isinstance(numsub[0], tuple) else [numsub])
    return int(found[channel.encode()]) == 1


def subscriptions(real: RedisHouse) -> list[int]:
    """Count those of each connection that has any."""
    return [sub for client in real.sync.client_list() if (sub := int(client["sub"])) > 0]


async def test_one_connection_serves_all_followers(real: RedisHouse) -> None:
    names = [f"j{i}" for i in range(10)]
    for name in names:
        await started(real, name)
    followers = [asyncio.create_task(collect(real.events.follow(name))) for name in names]
    async with asyncio.timeout(PATIENCE_S):
        while sum(subscribed := subscriptions(real)) < len(names):
            await asyncio.sleep(0.02)
    assert len(subscribed) == 1
    for name in names:
        await real.jobs.cancel(name)
    await asyncio.wait_for(asyncio.gather(*followers), PATIENCE_S)


async def test_a_stream_is_capped_and_outlived_by_the_record(real: RedisHouse) -> None:
    leases, claim = await started(real)
    await real.events.announce("j1", 60)
    for step in range(1500):
        leases.progress({"j1": Progress(step=step, steps=1500)})
    assert int(real.sync.xlen(events_key("j1"))) <= 700
    leases.finish("j1", claim.fence, DONE)
    assert 0 < int(real.sync.ttl(events_key("j1"))) <= 600
    told = await collect(real.events.follow("j1"))
    real.sync.delete(events_key("j1"))
    assert [e for _, e in await collect(real.events.follow("j1"))] == ["status", "done"]
    assert not await collect(real.events.follow("j1", after=told[-1][0]))
