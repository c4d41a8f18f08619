"""Indexes that were lost are entered again from the records, whichever they are."""

import asyncio
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.job import JobStatus
from tests.contract.house import House, RedisHouse, id_of, new_job, sent, statuses
from tests.contract.test_applications import an_application
from tests.contract.test_leases import DONE
from tests.contract.test_uploads import an_upload

#: Everything that records can give back, and the lists, which `republish` gives back then.
INDEXES = (
    "waiting:*",
    "queues",
    "leases",
    "held:*",
    "open:*",
    "deadlines",
    "finished",
    "buried:*",
    "tenant:*",
    "outbox",
    "outbox:dead:*",
    "pending:*",
    "uploads:*",
    "applications",
    "missing",
    "gen.*",
)
LEASE_S = 0.005
WEEK_S = 7 * 86_400
JOBS = ("queued", "later", "other", "own", "running", "ended", "buried")


async def some_of_each(house: House) -> None:
    """Leave jobs in every status, deliveries, uploads and an application."""
    jobs = [
        new_job("ended", hook=("started", "completed")),
        new_job("buried", hook=("completed",)),
        new_job("running", deadline_s=60.0),
        new_job("queued", hook=("completed",)),
        new_job("later", priority=6, deadline_s=60.0, tenant="u"),
        new_job("other", model="n"),
        sent(new_job("own"), "w9"),
    ]
    await house.jobs.submit(jobs)
    claim = house.leases().claim("ended")
    assert claim is not None and house.leases().finish("ended", claim.fence, DONE)
    assert house.leases(lease_s=LEASE_S).claim("buried") is not None
    await asyncio.sleep(2 * LEASE_S)
    assert (await house.sweeper(max_attempts=1).reap()).ended == ("buried",)
    assert await house.outbox.dead((await house.outbox.due())[0].id)
    assert house.leases("lost", lease_s=LEASE_S).claim("running") is not None
    await house.uploads.add(an_upload())
    await house.applications.add(an_application())


async def everything_ends(house: House) -> None:
    """Do what upkeep and one worker do."""
    sweeper, worker = house.sweeper(), house.leases("last")
    await asyncio.sleep(2 * LEASE_S)
    await sweeper.reap()
    for _ in range(2):
        await sweeper.republish(0.0)
    for queue in ("gen.m", "gen.n", "gen.m@w9"):
        while (name := id_of(house.pop(queue))) is not None:
            claim = worker.claim(name)
            if claim is not None:
                assert worker.finish(name, claim.fence, DONE)


async def check(house: House, lost: set[str]) -> None:
    await some_of_each(house)
    house.lose(*lost)
    await house.sweeper().rebuild(1.0)
    assert house.problems() == []
    await everything_ends(house)
    assert Counter(await statuses(house, *JOBS)) == {JobStatus.SUCCEEDED: 6, JobStatus.FAILED: 1}
    assert (await house.stats())["finished"] == len(JOBS)
    assert len((await house.jobs.list("t")).jobs) == len(JOBS) - 1
    assert [each.id for each in (await house.uploads.list(an_upload().kind, "t")).uploads] == ["u1"]
    assert await house.applications.all() == [an_application()]


async def test_whatever_is_lost_at_once_comes_back(house: House) -> None:
    await check(house, set(INDEXES))


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(lost=st.sets(st.sampled_from(INDEXES)))
def test_whichever_indexes_are_lost_every_job_ends(servers, lost: set[str]) -> None:
    async def run() -> None:
        house = servers.open("wheel")  # emptied
        await check(house, lost)
        await house.close()

    asyncio.run(run())


@pytest.mark.parametrize("index", INDEXES)
async def test_without_this_index_the_store_contradicts_itself(
    real: RedisHouse, index: str
) -> None:
    await some_of_each(real)
    real.lose(index)
    assert real.problems() or index in ("missing", "gen.*")
    await real.sweeper().rebuild(1.0)
    assert real.problems() == []


async def test_a_store_that_is_whole_is_left_as_it_is(house: House) -> None:
    await some_of_each(house)
    assert await house.sweeper().rebuild(1.0) == 0


async def test_nothing_of_a_whole_store_is_written_again(real: RedisHouse) -> None:
    def scores() -> dict[str, list[tuple[bytes, float]]]:
        names = ("outbox", "outbox:dead:t", "finished", "leases", "waiting:gen.m", "tenant:t")
        return {name: real.sync.zrange(name, 0, -1, withscores=True) for name in names}

    await some_of_each(real)
    before = scores()
    await real.sweeper().rebuild(1.0)
    assert scores() == before


async def test_a_share_of_the_keys_at_a_time_makes_a_pass(real: RedisHouse) -> None:
    await real.jobs.submit([new_job(f"j{i}") for i in range(40)])
    for i in range(2000):
        real.sync.set(f"other:{i}", "")
    real.lose("waiting:*", "tenant:*")
    sweeper = real.sweeper()
    found = [await sweeper.rebuild(0.1) for _ in range(30)]
    assert sum(found) == 80
    assert max(found) < 80
    real.lose("other:*")


async def test_deliveries_that_were_given_up_stay_given_up(real: RedisHouse) -> None:
    await some_of_each(real)
    [(name, given_up_at)] = real.sync.zrange("outbox:dead:t", 0, -1, withscores=True)
    real.lose("outbox", "outbox:dead:*")
    await real.sweeper().rebuild(1.0)
    [(found, found_at)] = real.sync.zrange("outbox:dead:t", 0, -1, withscores=True)
    assert found == name
    assert abs(found_at - given_up_at) < 1000.0  # ms: its time to live is in whole seconds
    assert 0 < real.sync.ttl("outbox:dead:t") <= WEEK_S
    assert len(await real.outbox.due()) == 2


async def test_what_an_older_version_gave_up_goes_to_its_tenant_and_the_rest_runs_out(
    real: RedisHouse,
) -> None:
    await some_of_each(real)
    [name] = real.sync.zrange("outbox:dead:t", 0, -1)
    real.sync.hdel(f"delivery:{name.decode()}", "tenant")
    real.sync.rename("outbox:dead:t", "outbox:dead")
    real.sync.persist("outbox:dead")
    real.sync.zadd("outbox:dead", {"of a job that is elsewhere": 1.0})
    real.sync.hset("delivery:of a job that is elsewhere", "job", "elsewhere")
    real.sync.expire("delivery:of a job that is elsewhere", WEEK_S)
    assert await real.sweeper().rebuild(1.0) == 1
    assert real.sync.zrange("outbox:dead:t", 0, -1) == [name]
    assert real.sync.zrange("outbox:dead", 0, -1) == [b"of a job that is elsewhere"]
    assert 0 < real.sync.ttl("outbox:dead") <= WEEK_S
    assert await real.sweeper().rebuild(1.0) == 0


async def test_keys_that_are_none_of_ours_keep_nobody_from_theirs(real: RedisHouse) -> None:
    await real.jobs.submit([new_job()])
    for name in ("job:x", "delivery:x", "upload:x", "applications:x"):
        real.sync.set(name, "no hash")
    real.sync.hset("job:y", "status", "queued")
    real.lose("waiting:*")
    await real.sweeper().rebuild(1.0)
    assert real.sync.zrange("waiting:gen.m", 0, -1) == [b"j1"]
    real.sync.flushall()
