"""What is accepted under `ATELIER_DURABILITY=strict` outlives its server, or is not accepted."""

import shutil
from pathlib import Path

import pytest
from redis.asyncio import Redis

from core.errors import ConfigurationError, StoreRefused, StoreUnavailable
from core.settings import Durability
from storage.jobs.jobs import JobStore
from storage.redis.connect import connect
from storage.redis.server import wheel_binary
from storage.redis.strict import confirming
from tests.rig import new_job
from tests.servers import redis_server


def strict(redis: Redis, url: str) -> JobStore:
    return JobStore(redis, max_queue=10, confirm=confirming(Durability.STRICT, url))


@pytest.fixture
def server(tmp_path, monkeypatch):
    # A disk that others write to takes its time; a client waits five seconds for any answer.
    monkeypatch.setattr("storage.redis.strict.PATIENCE_MS", 4500)
    binary = wheel_binary()
    assert binary is not None
    found = redis_server(tmp_path, binary=binary)
    yield found
    found.stop()


async def test_a_job_is_accepted_once_it_is_on_the_disk(server):
    redis = connect(server.url)
    job = new_job()
    await strict(redis, server.url).submit([job])
    server.kill()
    server.restart()
    assert (await JobStore(redis, max_queue=1).get(job.id)).id == job.id
    await redis.aclose()


async def test_a_job_that_does_not_reach_the_disk_is_not_accepted(server):
    redis = connect(server.url)
    await redis.config_set("appendonly", "no")
    with pytest.raises((StoreUnavailable, ConfigurationError)):
        await strict(redis, server.url).submit([new_job()])
    await redis.aclose()


async def test_a_server_that_has_not_heard_of_a_job_does_not_confirm_it(server):
    redis, job = connect(server.url), new_job()
    jobs = strict(redis, server.url)
    confirm = confirming(Durability.STRICT, server.url)
    await jobs.submit([job])
    await confirm(redis, f"job:{job.id}")
    with pytest.raises(StoreUnavailable, match="not heard of it"):
        await confirm(redis, f"job:{job.id}", "job:of-the-server-that-led")
    await redis.flushdb()  # as another server that leads, which was behind
    with pytest.raises(StoreUnavailable, match="not heard of it"):
        await confirm(redis, f"job:{job.id}")
    await redis.aclose()


async def test_a_leader_that_refuses_to_write_confirms_nothing(server):
    redis = connect(server.url)
    await redis.config_set("min-replicas-to-write", 1)
    with pytest.raises(StoreUnavailable, match="NOREPLICAS") as caught:
        await confirming(Durability.STRICT, server.url)(redis)
    assert not isinstance(caught.value, StoreRefused), "what is to be confirmed was written"
    await redis.aclose()


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="apt-get install redis-server")
async def test_a_server_that_cannot_tell_is_named(tmp_path):
    server = redis_server(tmp_path, binary=Path(shutil.which("redis-server") or ""))
    redis = connect(server.url)
    version = (await redis.info("server"))["redis_version"]
    try:
        if version.startswith("7.0."):  # Debian's; later ones can
            with pytest.raises(ConfigurationError, match="WAITAOF"):
                await strict(redis, server.url).submit([new_job()])
    finally:
        await redis.aclose()
        server.stop()
