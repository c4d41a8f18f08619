"""Jobs that ended for want of attempts: listed, and tried again."""

import asyncio
from dataclasses import replace

import pytest

from core.errors import Conflict, NotFound
from core.job import Job, JobStatus, Progress
from storage.jobs.submit import NewJob
from storage.jobs.sweeps import MAX_PUBLICATIONS
from tests.contract.house import House, RedisHouse, id_of, message_of, new_job, sent
from tests.contract.test_leases import DONE

LAPSE_S = 0.01
DEADLINE_S = 4.0  #: it is buried within that, on a slow machine too
HASTY_S = 3.0  #: likewise: what a job is promised that is tried again


async def buried(house: House, *jobs: NewJob) -> list[Job]:
    """Submit jobs and lose the worker of each, alone, once too often."""
    for job in jobs:
        await house.jobs.submit([job])
        house.pop(job.placement.queue)
        assert house.leases(lease_s=LAPSE_S / 2).claim(job.id)
        await asyncio.sleep(LAPSE_S)
        assert (await house.sweeper(max_attempts=1).reap()).ended == (job.id,)
    return [await house.jobs.get(job.id) for job in jobs]


async def retry(house: House, job_id: str, tenant: str | None = "t") -> Job:
    return await house.jobs.retry(job_id, tenant, message_of(job_id))


async def names(house: House, tenant: str = "t") -> list[str]:
    return [job.id for job in (await house.jobs.list(tenant, is_buried=True)).jobs]


async def test_buried_jobs_are_listed_the_newest_first_page_by_page(house: House) -> None:
    await house.jobs.submit([new_job("healthy")])
    await buried(house, *(new_job(f"j{i}") for i in range(3)), new_job("theirs", tenant="u"))
    first = await house.jobs.list("t", is_buried=True, limit=2)
    assert [job.id for job in first.jobs] == ["j2", "j1"]
    rest = await house.jobs.list("t", is_buried=True, limit=2, cursor=first.cursor)
    assert ([job.id for job in rest.jobs], rest.cursor) == (["j0"], None)
    assert await names(house, "u") == ["theirs"]
    assert await names(house, "nobody") == []


async def test_a_job_that_failed_otherwise_is_not_among_them(house: House) -> None:
    await house.jobs.submit([new_job()])
    await house.jobs.cancel("j1")
    assert await names(house) == []
    with pytest.raises(Conflict, match="j1 is canceled, not buried"):
        await retry(house, "j1")


async def test_a_message_that_nobody_could_read_is_among_them(house: House) -> None:
    await house.jobs.submit([new_job()])
    for _ in range(2 * MAX_PUBLICATIONS + 2):
        house.pop("gen.m")
        await house.sweeper().republish(0.0)
    assert await names(house) == ["j1"]
    await retry(house, "j1")
    house.pop("gen.m")
    for _ in range(2):
        await house.sweeper().republish(0.0)
    assert (await house.jobs.get("j1")).status is JobStatus.QUEUED, "it has all its rings again"


async def test_a_job_tried_again_is_popped_next_alone_and_with_all_its_attempts(
    house: House,
) -> None:
    await buried(house, new_job())
    await house.jobs.submit([new_job("j2")])
    job = await retry(house, "j1")
    assert (job.status, job.attempts, job.is_suspect) == (JobStatus.QUEUED, 0, True)
    assert (job.failure, job.finished_at, job.started_at) == (None, None, None)
    assert job.progress == Progress() and job.retried_at is not None
    assert await names(house) == []
    assert id_of(house.pop("gen.m")) == "j1"
    leases = house.leases("w2")
    claim = leases.claim("j1")
    assert claim is not None and (claim.job.attempts, claim.job.is_suspect) == (1, True)
    assert leases.finish("j1", claim.fence, DONE)
    done = await house.jobs.get("j1")
    assert (done.status, done.images, done.failure) == (JobStatus.SUCCEEDED, DONE.images, None)
    assert done.finished_at is not None
    assert done.timing.total_s == round(done.finished_at - job.retried_at, 3)
    stats = await house.stats()
    assert (stats["jobs_dead"], stats["retried"]) == (1, 1)
    assert stats["jobs:generate:failed"] == stats["jobs:generate:succeeded"] == 1


async def test_asking_twice_for_another_try_is_asking_once(house: House) -> None:
    await buried(house, new_job())
    await retry(house, "j1")
    assert (await retry(house, "j1")).status is JobStatus.QUEUED
    assert len(house.messages("gen.m")) == 1
    leases = house.leases()
    claim = leases.claim("j1")
    assert claim is not None
    assert (await retry(house, "j1")).status is JobStatus.RUNNING
    leases.finish("j1", claim.fence, DONE)
    with pytest.raises(Conflict, match="j1 is succeeded, not buried"):
        await retry(house, "j1")
    assert (await house.stats())["retried"] == 1


async def test_only_buried_jobs_of_the_tenant_are_tried_again(house: House) -> None:
    await buried(house, new_job())
    with pytest.raises(NotFound):
        await retry(house, "j1", "somebody else")
    with pytest.raises(NotFound):
        await retry(house, "unknown")
    await house.jobs.submit([new_job("j2")])
    with pytest.raises(Conflict, match="j2 is queued, not buried"):
        await retry(house, "j2")
    assert (await retry(house, "j1", None)).status is JobStatus.QUEUED


async def test_a_buried_job_past_its_deadline_stays_buried(house: House) -> None:
    await buried(house, new_job(deadline_s=DEADLINE_S))
    await asyncio.sleep(DEADLINE_S)
    with pytest.raises(Conflict, match="deadline of job j1 has passed"):
        await retry(house, "j1")
    assert await names(house) == ["j1"]


async def test_a_job_tried_again_keeps_its_deadline(house: House) -> None:
    [job] = await buried(house, new_job(deadline_s=600.0))
    assert job.deadline_at is not None
    assert (await retry(house, "j1")).deadline_at == job.deadline_at
    assert house.problems() == []
    house.pass_deadline("j1")
    assert await house.sweeper().expire() == ["j1"]
    assert await names(house) == []


async def test_a_job_that_kills_again_is_buried_again(house: House) -> None:
    await buried(house, new_job())
    await retry(house, "j1")
    for number in range(3):
        house.pop("gen.m")
        assert house.leases(lease_s=LAPSE_S / 2).claim("j1")
        await asyncio.sleep(LAPSE_S)
        reaped = await house.sweeper(max_attempts=3).reap()
        assert reaped.ended == (("j1",) if number == 2 else ())
    assert await names(house) == ["j1"]
    assert (await house.stats())["jobs_dead"] == 2
    assert (await retry(house, "j1")).attempts == 0


async def live(house: House) -> None:
    """Claim j1 and make it."""
    leases = house.leases()
    claim = leases.claim("j1")
    assert claim is not None and leases.finish("j1", claim.fence, DONE)


async def test_webhooks_of_the_second_life_have_names_of_their_own(house: House) -> None:
    await buried(house, new_job(hook=("started", "completed")))
    for delivery in await house.outbox.due():
        await house.outbox.done(delivery.id)
    await retry(house, "j1")
    await live(house)
    posted = {d.id: d.event for d in await house.outbox.due()}
    assert posted == {"j1:started:1:again1": "started", "j1:completed:again1": "completed"}


@pytest.mark.parametrize("is_given_up", [True, False])
async def test_an_end_that_nobody_was_told_of_is_not_told_after_a_retry(
    house: House, is_given_up: bool
) -> None:
    await buried(house, new_job(hook=("completed",)))
    [delivery] = await house.outbox.due()
    if is_given_up:
        await house.outbox.dead(delivery.id)
    await retry(house, "j1")
    assert await house.outbox.get_dead("j1:completed", "t") is None
    assert await house.outbox.due() == []
    await house.outbox.retry(delivery, 0.0)
    await live(house)
    assert [d.id for d in await house.outbox.due()] == ["j1:completed:again1"]


async def test_followers_of_the_second_life_do_not_see_the_end_of_the_first(house: House) -> None:
    await buried(house, new_job())
    first = [event async for event in house.events.follow("j1")]
    assert first[-1].event == "done"
    await retry(house, "j1")
    leases = house.leases()
    claim = leases.claim("j1")
    assert claim is not None
    leases.finish("j1", claim.fence, DONE)
    told = [(e.event, e.data["status"]) async for e in house.events.follow("j1")]
    assert told == [("status", "queued"), ("status", "running"), ("done", "succeeded")]
    after = [e.event async for e in house.events.follow("j1", first[-1].id)]
    assert after == ["status", "status", "done"], "also for one who had heard of its end"


async def test_a_forgotten_job_is_buried_no_more(house: House) -> None:
    await buried(house, new_job())
    assert await house.sweeper().forget(["j1"]) == 1
    assert await names(house) == []
    with pytest.raises(NotFound):
        await retry(house, "j1")


async def test_a_job_tried_again_is_not_forgotten_with_the_old(house: House) -> None:
    await buried(house, new_job())
    await retry(house, "j1")
    assert await house.sweeper().forget(["j1"]) == 0
    assert await house.sweeper().find_old(0.0) == []


async def test_a_second_life_on_a_queue_that_was_forgotten_is_found_for_rescue(
    real: RedisHouse,
) -> None:
    await buried(real, sent(new_job("j1"), "w@h"))
    await real.sweeper().republish(60.0)
    assert await real.client.smembers("queues") == set()
    await retry(real, "j1")
    assert await real.sweeper().rescue({"gen.m"}) == ["j1"]


async def test_the_waiting_of_a_second_life_begins_with_it(house: House) -> None:
    hasty = new_job()
    hasty = replace(hasty, request=replace(hasty.request, slo_s=HASTY_S))
    await house.jobs.submit([hasty])
    house.pop("gen.m")
    leases = house.leases(lease_s=LAPSE_S / 2)
    assert leases.claim("j1")
    leases.progress({"j1": Progress(step=3, steps=4)})
    await asyncio.sleep(1.05 * HASTY_S)
    await house.sweeper(max_attempts=1).reap()
    assert (await house.stats())["slo_violations"] == 1
    job = await retry(house, "j1")
    assert job.retried_at is not None and job.retried_at - job.created_at >= HASTY_S
    assert job.progress.step == 0
    [depth] = await house.jobs.depths(["gen.m"])
    assert (depth.waiting, depth.oldest_s < HASTY_S) == (1, True)
    leases = house.leases()
    claim = leases.claim("j1")
    assert claim is not None and claim.job.timing.queue_s < HASTY_S
    leases.finish("j1", claim.fence, DONE)
    assert (await house.stats())["slo_violations"] == 1, "it was made in time this time"


async def test_the_events_of_a_second_life_are_kept_while_it_lasts(real: RedisHouse) -> None:
    await real.jobs.submit([new_job()])
    await real.events.announce("j1")
    await buried(real, new_job())
    assert real.sync.ttl("events:j1") > 0
    await retry(real, "j1")
    assert real.sync.ttl("events:j1") == -1
