"""A server that is killed, restarted, emptied of scripts, or does not answer."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis

from core.errors import NotFound, StoreRefused, StoreUnavailable
from core.job import JobStatus
from core.uploads.upload import UploadKind
from storage.jobs.leases import Outcome
from storage.redis.connect import connect, connect_sync, converting_errors
from storage.redis.script import call_sync, load
from tests.contract.house import RedisHouse, new_job
from tests.contract.test_uploads import an_upload
from tests.servers import Server, redis_server

DONE = Outcome(status=JobStatus.SUCCEEDED)


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[tuple[Server, RedisHouse]]:
    server = redis_server(tmp_path / "redis")
    house = RedisHouse(connect(server.url), connect_sync(server.url))
    yield server, house
    await house.close()
    server.stop()


async def written(house: RedisHouse) -> None:
    """Wait until the server has handed its log to the system: a kill loses nothing of that.

    With `everysec` it holds writes back while a sync is under way, for two seconds at most.
    """
    while house.sync.info("persistence")["aof_buffer_length"]:
        await asyncio.sleep(0.01)


async def test_what_was_accepted_is_there_after_a_crash(own: tuple[Server, RedisHouse]) -> None:
    server, house = own
    await house.jobs.submit([new_job(f"j{i}") for i in range(50)])
    leases = house.leases()
    claim = leases.claim("j0")
    assert claim is not None
    await written(house)
    server.kill()
    server.restart()
    assert leases.beat({"j0": claim.fence}) == []
    assert leases.finish("j0", claim.fence, DONE)
    assert (await house.jobs.get("j49")).status is JobStatus.QUEUED
    assert house.problems() == []


async def test_a_server_that_is_away_is_named_as_such(own: tuple[Server, RedisHouse]) -> None:
    server, house = own
    leases = house.leases()
    server.kill()
    for attempt in (house.jobs.submit([new_job()]), house.jobs.get("j1"), house.outbox.due()):
        with pytest.raises(StoreUnavailable):
            await attempt
    with pytest.raises(StoreUnavailable):
        leases.claim("j1")
    assert list(leases.stops(0.05)) == [], "the thread that listens goes on"


async def test_a_worker_hears_of_stops_again_after_a_crash(own: tuple[Server, RedisHouse]) -> None:
    server, house = own
    leases = house.leases()
    await house.jobs.submit([new_job()])
    leases.claim("j1")
    list(leases.stops(0.02))
    await written(house)
    server.kill()
    server.restart()
    for _ in range(3):
        list(leases.stops(0.05))
    await house.jobs.cancel("j1")
    assert next(leases.stops(60.0)) == "j1"


async def test_a_follower_goes_on_after_a_crash(own: tuple[Server, RedisHouse]) -> None:
    server, house = own
    await house.jobs.submit([new_job()])

    async def follow() -> str:
        last, after = "", "0"
        while last != "done":
            try:
                async for event in house.events.follow("j1", after):
                    last, after = event.event, event.id
            except StoreUnavailable:
                await asyncio.sleep(0.1)
        return last

    follower = asyncio.create_task(follow())
    await asyncio.sleep(0.1)
    await written(house)
    server.kill()
    await asyncio.sleep(0.1)
    server.restart()
    await house.jobs.cancel("j1")
    assert await asyncio.wait_for(follower, 60.0) == "done"


async def test_a_server_that_forgot_the_scripts_gets_them_again(real: RedisHouse) -> None:
    await real.jobs.submit([new_job("j1")])
    real.sync.script_flush()
    await real.jobs.submit([new_job("j2")])
    real.sync.script_flush()
    assert real.leases().claim("j1") is not None


async def test_a_claim_whose_answer_was_lost_is_answered_again(real: RedisHouse) -> None:
    await real.jobs.submit([new_job()])
    leases = real.leases()
    claim = leases.claim("j1")
    token = real.sync.hget("job:j1", "token")
    assert claim is not None and isinstance(token, bytes)
    again = call_sync(real.sync, load("claim"), "j1", "w1", 60000, token, 0)
    assert again and real.sync.hget("job:j1", "attempts") == b"1"


async def test_a_full_server_is_unavailable_not_broken(real: RedisHouse) -> None:
    real.sync.config_set("maxmemory", "1mb")
    try:
        with pytest.raises(StoreUnavailable, match="OutOfMemory"):
            for i in range(400):
                await real.jobs.submit([new_job(f"j{i}", model=f"m{i}")])
    finally:
        real.sync.config_set("maxmemory", "0")


#: How a server comes to refuse to write, and how it comes back.
REFUSING = {
    "full": ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
    "without replicas": (
        "CONFIG SET min-replicas-to-write 1",
        "CONFIG SET min-replicas-to-write 0",
    ),
    "a replica": ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
}


@pytest.mark.parametrize("why", REFUSING)
async def test_a_server_that_refuses_to_write_says_so_and_has_written_nothing(
    real: RedisHouse, why: str
) -> None:
    begin, end = (line.split() for line in REFUSING[why])
    await real.jobs.submit([new_job("before")])
    real.sync.execute_command(*begin)
    try:
        for name in ("j1", "j2"):  # the first of them brings the script
            with pytest.raises(StoreRefused):
                await real.jobs.submit([new_job(name), new_job(f"{name}-too")])
            with pytest.raises(StoreRefused):
                await real.uploads.add(an_upload(name))
    finally:
        real.sync.execute_command(*end)
    assert [job.id for job in (await real.jobs.list("t")).jobs] == ["before"]
    assert not (await real.uploads.list(UploadKind.TEMPLATE, "t")).uploads
    with pytest.raises(NotFound):
        await real.jobs.get("j1-too")


async def test_what_is_there_is_told_by_a_server_that_refuses_to_write(real: RedisHouse) -> None:
    """So a lost answer that is asked for again is no refusal, whose pictures would be deleted."""
    await real.jobs.submit([new_job("j1")])
    await real.uploads.add(an_upload("u1"))
    real.sync.config_set("min-replicas-to-write", "1")
    try:
        await real.jobs.submit([new_job("j1")])
        await real.uploads.add(an_upload("u1"))
    finally:
        real.sync.config_set("min-replicas-to-write", "0")


def test_a_mistake_of_ours_is_not_taken_for_an_outage() -> None:
    with pytest.raises(redis.ResponseError), converting_errors():
        raise redis.ResponseError("WRONGTYPE Operation against a key of the wrong kind")
