"""The Redis of compose.yaml, started by its own command: do our scripts run under its ACL?"""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import redis
from celery import Celery
from redis.exceptions import NoPermissionError

from core.job import JobStatus
from core.settings import Settings
from storage.boards.fleet import Leadership
from storage.jobs.integrity import check_integrity
from storage.jobs.jobs import JobStore
from storage.jobs.leases import LeaseStore, Outcome
from storage.jobs.submit import NewJob
from storage.jobs.sweeps import Sweeper
from storage.redis.connect import connect, connect_sync
from storage.redis.durability import DurabilityFaults, read_durability
from tasks.app import make_app
from tasks.messages import envelope
from tests.compose_store import BINARIES, PASSWORD, compose_store, login
from tests.e2e.waiting import until
from tests.jobs import a_job
from tests.rig import new_job
from tests.servers import Server
from tests.unit.ops.compose import ROOT

pytestmark = pytest.mark.e2e


@pytest.fixture(params=BINARIES)
def store(request, tmp_path) -> Iterator[Server]:
    server = compose_store(tmp_path, request.param)
    yield server
    server.stop()


def test_nobody_enters_without_the_password(store):
    for user, password in ((None, None), ("default", None), ("atelier", "wrong")):
        with login(store.port, user, password) as client, pytest.raises(redis.AuthenticationError):
            client.ping()


def test_our_user_cannot_empty_or_reconfigure_the_store(store):
    with login(store.port, "atelier", PASSWORD) as client:
        for command in ("FLUSHALL", "FLUSHDB", "CONFIG GET *", "SHUTDOWN", "ACL LIST"):
            with pytest.raises(NoPermissionError):
                client.execute_command(*command.split())


def test_nothing_is_evicted_and_everything_is_logged(store):
    with login(store.port, "atelier", PASSWORD) as client:
        assert client.info("memory")["maxmemory_policy"] == "noeviction"
        assert client.info("persistence")["aof_enabled"] == 1


async def test_our_user_may_ask_whether_the_store_keeps_what_it_accepts(store):
    async with connect(store.url) as client:
        assert await read_durability(client) == DurabilityFaults()


async def test_every_accepted_job_is_there_after_a_crash(store):
    jobs = [new_job() for _ in range(50)]
    async with connect(store.url) as client:
        await JobStore(client, max_queue=100).submit(jobs)
        before = {job.id: await JobStore(client, max_queue=100).get(job.id) for job in jobs}
    with login(store.port, "atelier", PASSWORD) as client:
        until(lambda: client.info("persistence")["aof_buffer_length"] == 0)
    store.kill()
    store.start()
    async with connect(store.url) as client:
        after = {job.id: await JobStore(client, max_queue=100).get(job.id) for job in jobs}
    assert after == before
    with connect_sync(store.url) as sync:
        assert check_integrity(sync, is_quiet=True) == []
    test_nobody_enters_without_the_password(store)


def test_it_ends_in_order_when_it_is_told_to(store):
    assert store.process is not None
    store.process.terminate()  # its first process alone, as `docker stop` does
    store.process.wait(60)
    assert "bye bye" in store.log.read_text()


def test_the_password_is_in_no_process_list(store):
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert PASSWORD not in listed.stdout


def test_celery_sends_and_receives_under_the_acl(store):
    app: Celery = make_app(Settings(redis_url=store.url))
    with app.connection_for_write() as connection:
        queue = connection.SimpleQueue("cpu")
        queue.put({"hello": "store"})
        message = queue.get(timeout=5)
        assert message.payload == {"hello": "store"}
        message.ack()
        queue.close()


async def test_a_job_lives_its_whole_life_under_the_acl(store):
    asked = a_job("j1")
    queue = asked.placement.queue
    job = NewJob(
        id="j1",
        tenant="t",
        request=asked.request,
        placement=asked.placement,
        deadline_s=60.0,
        message=envelope("j1", queue, 0),
        priority=0,
    )
    async with connect(store.url) as client:
        jobs, sweeper = JobStore(client, max_queue=10), Sweeper(client, max_attempts=3)
        await jobs.submit([job])
        with connect_sync(store.url) as for_worker:
            leases = LeaseStore(for_worker, worker="w1", lease_s=60.0)
            claim = leases.claim("j1")
            assert leases.beat({"j1": claim.fence}) == []
            assert leases.finish("j1", claim.fence, Outcome(status=JobStatus.SUCCEEDED))
        await sweeper.reap()
        await sweeper.republish(0.0)
        await sweeper.expire()
        assert (await jobs.get("j1")).status is JobStatus.SUCCEEDED
        assert await sweeper.rescue({queue}) == []
        assert [old.id for old in await sweeper.find_old(-1.0)] == ["j1"]
        assert await sweeper.forget(["j1"]) == 1


async def test_the_health_check_of_upkeep_tells_whether_somebody_leads(store):
    def leads() -> int:
        command = [sys.executable, str(ROOT / "docker" / "leads.py"), "upkeep"]
        env = {**os.environ, "ATELIER_REDIS_URL": store.url, "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, env=env, timeout=60).returncode

    assert leads() == 1
    async with connect(store.url) as client:
        await Leadership(client, "upkeep", "me", 60.0).acquire()
    assert leads() == 0
