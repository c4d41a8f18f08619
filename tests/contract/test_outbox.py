import asyncio
import json
import time
from dataclasses import replace

from core.job import Claim, JobStatus, Progress
from storage.jobs.leases import Leases, Outcome
from tests.contract.house import House, RedisHouse, new_job

ALL = ("started", "progress", "completed")
DONE = Outcome(status=JobStatus.SUCCEEDED)


async def started(house: House, hook: tuple[str, ...]) -> tuple[Leases, Claim]:
    await house.jobs.submit([new_job(hook=hook)])
    leases = house.leases()
    claim = leases.claim("j1")
    assert claim is not None
    return leases, claim


async def test_the_script_that_ends_a_job_puts_its_webhook_in_the_outbox(house: House) -> None:
    leases, claim = await started(house, ("completed",))
    assert await house.outbox.due() == []
    leases.finish("j1", claim.fence, DONE)
    [delivery] = await house.outbox.due()
    assert (delivery.job_id, delivery.event, delivery.attempt) == ("j1", "completed", 1)
    assert delivery.url == "https://client.example/hook"
    assert json.loads(delivery.body) == {"status": "succeeded"}


async def test_a_job_without_a_webhook_posts_nothing(house: House) -> None:
    leases, claim = await started(house, ())
    leases.progress({"j1": Progress(step=1, steps=2)})
    leases.finish("j1", claim.fence, DONE)
    assert await house.outbox.due() == []


async def test_every_end_of_a_job_is_posted(house: House) -> None:
    await house.jobs.submit(
        [new_job("a", hook=("completed",)), new_job("b", hook=("completed",), deadline_s=0.001)]
    )
    await house.jobs.cancel("a")
    await asyncio.sleep(0.005)
    await house.sweeper().expire()
    bodies = [json.loads(d.body)["status"] for d in await house.outbox.due()]
    assert sorted(bodies) == ["canceled", "expired"]


async def test_events_asked_for_are_posted_and_progress_is_rationed(house: House) -> None:
    leases, claim = await started(house, ALL)
    for step in range(1, 4):
        leases.progress({"j1": Progress(step=step, steps=4)})
    leases.finish("j1", claim.fence, DONE)
    deliveries = await house.outbox.due()
    assert [d.event for d in deliveries].count("progress") == 1
    assert sorted({d.event for d in deliveries}) == sorted(ALL)
    assert len({d.id for d in deliveries}) == 3


async def test_a_delivery_handed_out_is_not_handed_out_again_at_once(house: House) -> None:
    leases, claim = await started(house, ("completed",))
    leases.finish("j1", claim.fence, DONE)
    [first] = await house.outbox.due()
    assert await house.outbox.due() == []
    [again] = await house.outbox.due(time.time() + 120.0)
    assert (again.id, again.attempt) == (first.id, 1), "nobody has tried"


async def test_what_was_handed_out_and_not_settled_is_told(house: House) -> None:
    names = ("left", "done", "retried", "dead")
    await house.jobs.submit([new_job(name, hook=("completed",)) for name in names])
    for name in names:
        await house.jobs.cancel(name)
    handed_out = await house.outbox.due()
    by_job = {delivery.job_id: delivery.id for delivery in handed_out}
    assert await house.outbox.current([]) == set()
    assert await house.outbox.current(handed_out) == set(by_job.values())
    assert await house.outbox.done(by_job["done"])
    assert await house.outbox.retry(by_job["retried"], 30.0)
    assert await house.outbox.dead(by_job["dead"])
    assert await house.outbox.current(handed_out) == {by_job["left"]}


async def test_a_retry_comes_when_it_is_due_under_the_same_id(house: House) -> None:
    leases, claim = await started(house, ("completed",))
    leases.finish("j1", claim.fence, DONE)
    [first] = await house.outbox.due()
    now = time.time()
    assert await house.outbox.retry(first.id, 30.0)
    assert await house.outbox.due(now + 29.0) == []
    [second] = await house.outbox.due(now + 90.0)
    assert (second.id, second.attempt) == (first.id, 2)
    assert await house.outbox.done(second.id)
    assert not await house.outbox.retry(second.id, 0.0)
    assert await house.outbox.due(now + 1e6) == []


async def test_what_is_settled_or_handed_out_again_is_current_no_more(house: House) -> None:
    leases, claim = await started(house, ("completed",))
    leases.finish("j1", claim.fence, DONE)
    [first] = await house.outbox.due()
    assert await house.outbox.current([first])
    [second] = await house.outbox.due(time.time() + 90.0)
    assert not await house.outbox.current([first])
    assert await house.outbox.current([second])
    assert await house.outbox.current([replace(second, again_ms=0)]), "of an older version"
    await house.outbox.done(second.id)
    assert not await house.outbox.current([second])


async def test_dead_deliveries_are_kept_and_can_be_replayed(house: House) -> None:
    leases, claim = await started(house, ("completed",))
    leases.finish("j1", claim.fence, DONE)
    [delivery] = await house.outbox.due()
    assert await house.outbox.dead(delivery.id)
    assert not await house.outbox.dead(delivery.id)
    assert await house.outbox.due(time.time() + 1e6) == []
    assert [(d.id, d.attempt) for d in await house.outbox.list_dead()] == [(delivery.id, 1)]
    found = await house.outbox.get_dead(delivery.id)
    assert found is not None
    assert (found.id, found.job_id, found.attempt) == (delivery.id, "j1", 1)
    assert await house.outbox.replay(delivery.id)
    assert await house.outbox.get_dead(delivery.id) is None
    assert not await house.outbox.replay(delivery.id)
    [again] = await house.outbox.due()
    assert (again.id, again.attempt) == (delivery.id, 1)
    assert await house.outbox.list_dead() == []


async def test_outcomes_are_counted(house: House) -> None:
    leases, claim = await started(house, ("completed",))
    leases.finish("j1", claim.fence, DONE)
    [delivery] = await house.outbox.due()
    await house.outbox.retry(delivery.id, 0.0)
    await house.outbox.done(delivery.id, "refused")
    stats = await house.stats()
    assert (stats["webhooks:retried"], stats["webhooks:refused"]) == (1, 1)


async def test_a_batch_is_no_larger_than_asked_for(house: House) -> None:
    await house.jobs.submit([new_job(f"j{i}", hook=("completed",)) for i in range(5)])
    for i in range(5):
        await house.jobs.cancel(f"j{i}")
    assert len(await house.outbox.due(limit=3)) == 3
    assert len(await house.outbox.due(limit=3)) == 2


async def test_what_was_given_up_is_forgotten_after_a_week(real: RedisHouse) -> None:
    real.sync.zadd("outbox:dead", {"long ago": (time.time() - 8 * 86400) * 1000})
    leases, claim = await started(real, ("completed",))
    leases.finish("j1", claim.fence, DONE)
    [delivery] = await real.outbox.due()
    await real.outbox.dead(delivery.id)
    assert real.sync.zrange("outbox:dead", 0, -1) == [b"j1:completed"]
