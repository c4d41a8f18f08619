import asyncio
import json
import time
from dataclasses import replace

from core.job import Claim, JobStatus, Progress
from storage.jobs.leases import Leases, Outcome
from storage.jobs.outbox import DeadPage
from tests.contract.house import MAX_DEAD, MAX_PENDING, House, RedisHouse, new_job

ALL = ("started", "progress", "completed")
DONE = Outcome(status=JobStatus.SUCCEEDED)
WEEK_S = 7 * 86_400


async def started(house: House, hook: tuple[str, ...]) -> tuple[Leases, Claim]:
    await house.jobs.submit([new_job(hook=hook)])
    leases = house.leases()
    claim = leases.claim("j1")
    assert claim is not None
    return leases, claim


async def given_up(house: House, *ids: str, tenant: str = "t") -> list[str]:
    """Have jobs end whose receiver is gone, one after another; name their webhooks."""
    for job_id in ids:
        await house.jobs.submit([new_job(job_id, tenant=tenant, hook=("completed",))])
        await house.jobs.cancel(job_id)
        assert await house.outbox.dead(f"{job_id}:completed")
        await asyncio.sleep(0.002)  # so that no two have one moment
    return [f"{job_id}:completed" for job_id in ids]


async def posted(house: House, count: int) -> list[str]:
    """Have jobs end one after another; name their webhooks."""
    for number in range(count):
        await house.jobs.submit([new_job(f"p{number:03}", hook=("completed",))])
        await house.jobs.cancel(f"p{number:03}")
    return [f"p{number:03}:completed" for number in range(count)]


def names_of(page: DeadPage) -> list[str]:
    return [each.delivery.id for each in page.dead]


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
    [retried] = [delivery for delivery in handed_out if delivery.job_id == "retried"]
    assert await house.outbox.current([]) == set()
    assert await house.outbox.current(handed_out) == set(by_job.values())
    assert await house.outbox.done(by_job["done"])
    assert await house.outbox.retry(retried, 30.0)
    assert await house.outbox.dead(by_job["dead"])
    assert await house.outbox.current(handed_out) == {by_job["left"]}


async def test_a_retry_comes_when_it_is_due_under_the_same_id(house: House) -> None:
    leases, claim = await started(house, ("completed",))
    leases.finish("j1", claim.fence, DONE)
    [first] = await house.outbox.due()
    now = time.time()
    assert await house.outbox.retry(first, 30.0)
    assert await house.outbox.due(now + 29.0) == []
    [second] = await house.outbox.due(now + 90.0)
    assert (second.id, second.attempt) == (first.id, 2)
    assert await house.outbox.done(second.id)
    assert not await house.outbox.retry(second, 0.0)
    assert await house.outbox.due(now + 1e6) == []


async def test_an_attempt_counts_once_however_often_it_is_told(house: House) -> None:
    leases, claim = await started(house, ("completed",))
    leases.finish("j1", claim.fence, DONE)
    [first] = await house.outbox.due()
    for wait_s in (30.0, 600.0):
        assert await house.outbox.retry(first, wait_s)
    [second] = await house.outbox.due(time.time() + 60.0)
    assert second.attempt == 2
    assert (await house.stats())["webhooks:retried"] == 1


async def test_beyond_so_many_to_be_made_of_a_tenant_the_oldest_are_given_up(house: House) -> None:
    await house.jobs.submit([new_job("theirs", tenant="u", hook=("completed",))])
    await house.jobs.cancel("theirs")
    await house.jobs.submit([new_job("started", hook=("started",))])
    assert house.leases().claim("started", is_exact=True) is not None
    await asyncio.sleep(0.002)  # so that it is the oldest
    names = await posted(house, MAX_PENDING + 1)
    await house.outbox.trim()
    handed_out = {each.id for each in await house.outbox.due()}
    assert handed_out == {"theirs:completed", *names[1:]}, "and what is not the end of a job"
    assert names_of(await house.outbox.list_dead("t")) == names[:1]
    stats = await house.stats()
    assert (stats["webhooks:dead"], stats["webhooks:dropped"]) == (1, 1)
    assert await house.outbox.replay(names[0])
    assert await house.outbox.done(names[0])
    await house.outbox.trim()
    assert await house.outbox.due() == []


async def test_one_call_gives_up_no_more_than_a_hundred(house: House) -> None:
    names = await posted(house, MAX_PENDING + 120)
    for given_up in (100, 120, 120):
        await house.outbox.trim()
        assert (await house.stats())["webhooks:dead"] == given_up
    left = {each.id for each in await house.outbox.due(limit=len(names))}
    assert left == set(names[120:])


async def test_what_an_older_version_settled_is_not_given_up(real: RedisHouse) -> None:
    names = await posted(real, MAX_PENDING + 2)
    assert await real.outbox.dead(names[0]) and await real.outbox.done(names[1])
    real.sync.zadd("pending:t", {names[0]: 1, names[1]: 2})  # which leaves both there
    await real.outbox.trim()
    assert names_of(await real.outbox.list_dead("t")) == names[:1]
    assert (await real.stats())["webhooks:dead"] == 1
    real.sync.zadd("pending:t", {names[0]: 1})
    real.sync.zrem("outbox", names[2])
    real.sync.delete(f"delivery:{names[2]}")
    for _ in range(2):
        await real.outbox.trim()
    assert real.sync.zrange("pending:t", 0, -1) == [name.encode() for name in names[3:]]


async def test_the_index_of_what_is_to_be_made_ends_by_itself(real: RedisHouse) -> None:
    async def lose() -> None:
        real.lose("pending:*")
        assert await real.sweeper().rebuild(1.0) == 0, "an older version posts without it"

    async def replay() -> None:
        assert await real.outbox.dead(name) and await real.outbox.replay(name)

    [name] = await posted(real, 1)
    for enter_again in (lose, replay):
        assert 0 < real.sync.ttl("pending:t") <= WEEK_S
        real.sync.persist("pending:t")
        await enter_again()
    assert 0 < real.sync.ttl("pending:t") <= WEEK_S
    assert real.problems() == []


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
    [listed] = (await house.outbox.list_dead("t")).dead
    assert (listed.delivery.id, listed.delivery.attempt) == (delivery.id, 1)
    assert abs(listed.at - time.time()) < 60.0
    found = await house.outbox.get_dead(delivery.id, "t")
    assert found is not None
    assert (found.id, found.job_id, found.attempt) == (delivery.id, "j1", 1)
    assert await house.outbox.replay(delivery.id)
    assert await house.outbox.get_dead(delivery.id, "t") is None
    assert not await house.outbox.replay(delivery.id)
    [again] = await house.outbox.due()
    assert (again.id, again.attempt) == (delivery.id, 1)
    assert names_of(await house.outbox.list_dead("t")) == []


async def test_what_was_given_up_is_listed_to_its_tenant_page_by_page(house: House) -> None:
    await given_up(house, "a", "b", "c")
    await given_up(house, "d", tenant="u")
    first = await house.outbox.list_dead("t", limit=2)
    assert names_of(first) == ["c:completed", "b:completed"]
    rest = await house.outbox.list_dead("t", limit=2, cursor=first.cursor)
    assert (names_of(rest), rest.cursor) == (["a:completed"], None)
    assert names_of(await house.outbox.list_dead("u")) == ["d:completed"]
    assert names_of(await house.outbox.list_dead("nobody")) == []
    assert await house.outbox.get_dead("d:completed", "t") is None
    assert await house.outbox.get_dead("d:completed", "u") is not None


async def test_beyond_so_many_of_a_tenant_the_oldest_go(house: House) -> None:
    await given_up(house, "theirs", tenant="u")
    names = await given_up(house, *(f"j{i}" for i in range(MAX_DEAD + 2)))
    assert names_of(await house.outbox.list_dead("t")) == names[:1:-1]
    for name in names[:2]:
        assert await house.outbox.get_dead(name, "t") is None
        assert not await house.outbox.replay(name)
    assert names_of(await house.outbox.list_dead("u")) == ["theirs:completed"]


async def test_outcomes_are_counted(house: House) -> None:
    leases, claim = await started(house, ("completed",))
    leases.finish("j1", claim.fence, DONE)
    [delivery] = await house.outbox.due()
    await house.outbox.retry(delivery, 0.0)
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
    long_ago_ms = (time.time() - WEEK_S - 60) * 1000
    for name in ("long ago", "as long ago"):
        real.sync.zadd("outbox:dead:t", {name: long_ago_ms})
        real.sync.hset(f"delivery:{name}", "job", "j0")
    await given_up(real, "j1")
    assert real.sync.zrange("outbox:dead:t", 0, -1) == [b"j1:completed"]
    assert real.sync.keys("delivery:*") == [b"delivery:j1:completed"]
    for key in ("outbox:dead:t", "delivery:j1:completed"):
        assert 0 < real.sync.ttl(key) <= WEEK_S


async def test_what_goes_beyond_so_many_takes_its_text_along(real: RedisHouse) -> None:
    names = await given_up(real, *(f"j{i}" for i in range(MAX_DEAD + 2)))
    assert real.sync.zcard("outbox:dead:t") == MAX_DEAD
    kept = {key.decode() for key in real.sync.keys("delivery:*")}
    assert kept == {f"delivery:{name}" for name in names[2:]}


async def test_no_call_forgets_many(real: RedisHouse) -> None:
    long_ago_ms = (time.time() - WEEK_S - 60) * 1000
    real.sync.zadd("outbox:dead:t", {f"d{i}": long_ago_ms for i in range(250)})
    await given_up(real, "j1")
    assert real.sync.zcard("outbox:dead:t") == 151
    names = ["j1:completed", *await given_up(real, "j2", "j3")]
    assert names_of(await real.outbox.list_dead("t")) == names[::-1]
    assert real.sync.zcard("outbox:dead:t") == len(names)


async def test_a_tenants_list_reads_nothing_of_anothers(real: RedisHouse) -> None:
    await given_up(real, "a", "b", tenant="u")
    await given_up(real, "c")
    real.sync.config_resetstat()
    assert names_of(await real.outbox.list_dead("t")) == ["c:completed"]
    told = real.sync.info("commandstats")
    assert told["cmdstat_hmget"]["calls"] == told["cmdstat_zrevrange"]["calls"] == 1


async def test_a_delivery_of_an_older_version_is_its_jobs_tenants(real: RedisHouse) -> None:
    await real.jobs.submit([new_job(name, hook=("completed",)) for name in ("here", "gone")])
    for name in ("here", "gone"):
        await real.jobs.cancel(name)
        real.sync.hdel(f"delivery:{name}:completed", "tenant")
    real.lose("pending:*")
    await real.sweeper().forget(["gone"])
    for name in ("here", "gone"):
        assert await real.outbox.dead(f"{name}:completed")
    assert names_of(await real.outbox.list_dead("t")) == ["here:completed"]
    assert await real.outbox.replay("here:completed")
