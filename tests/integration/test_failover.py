"""The store fails over while jobs are made: a replica leads, and whoever asks it goes on."""

import asyncio
import time
from dataclasses import replace

import pytest

from core.errors import NotFound, StoreUnavailable
from core.job import JobStatus
from core.settings import Durability
from storage.jobs.jobs import JobStore
from storage.redis.connect import connect, connect_sync
from storage.redis.strict import confirming
from tests.rig import a_rig, new_job
from tests.sentinels import wait_until, watched

pytestmark = [pytest.mark.integration, pytest.mark.long]


def submit_until_stored(rig, job, within_s=30.0):
    """Ask as a client should: again with the same key while the store is away."""
    until = time.monotonic() + within_s
    while True:
        try:
            return rig.submit(job)
        except StoreUnavailable:
            assert time.monotonic() < until
            time.sleep(0.2)


def wait_until_replicated(rig):
    """Return once the replica has what is written by now."""
    leader, [follower] = rig.redis.leader, rig.redis.followers
    written = replication_of(leader)["master_repl_offset"]
    wait_until(lambda: replication_of(follower)["slave_repl_offset"] >= written)


def replication_of(server):
    with connect_sync(server.url) as client:
        return client.info("replication")


def test_jobs_go_on_when_the_store_fails_over(tmp_path):
    with a_rig(tmp_path, watched) as rig:
        rig.upkeep()
        rig.worker("first")
        rig.wait_for_worker("first")
        before = [new_job(steps=400) for _ in range(12)]
        rig.submit(*before)
        rig.wait_for(before[0].id, JobStatus.RUNNING)
        wait_until_replicated(rig)
        rig.redis.fail_over()
        after = [replace(new_job(), idempotency_key=f"key-{n}") for n in range(4)]
        for job in after:
            submit_until_stored(rig, job)
        for job in (*before, *after):
            rig.wait_for(job.id, JobStatus.SUCCEEDED)
        assert rig.processes["first"].poll() is None
        assert rig.processes["upkeep"].poll() is None


def test_a_job_that_a_failover_forgot_is_told_apart(tmp_path):
    with a_rig(tmp_path, watched) as rig:
        kept, lost = new_job(), new_job()
        rig.submit(kept)
        wait_until_replicated(rig)
        leader, [follower] = rig.redis.leader, rig.redis.followers
        follower.kill()  # what is accepted now is on one server alone
        rig.submit(lost)
        leader.kill()
        rig.redis.follow(follower.restart(), leader)
        wait_until(lambda: rig.redis.is_led_by(follower))
        assert rig.job(kept.id).status is JobStatus.QUEUED
        with pytest.raises(NotFound):
            rig.job(lost.id)


def test_a_strict_service_accepts_nothing_that_a_failover_could_forget(tmp_path):
    with a_rig(tmp_path, watched) as rig:
        kept, refused = new_job(), new_job()
        submit_strictly(rig, kept)
        leader, [follower] = rig.redis.leader, rig.redis.followers
        follower.kill()
        with pytest.raises(StoreUnavailable, match="no second server"):
            submit_strictly(rig, refused)
        rig.redis.follow(follower.restart(), leader)
        wait_until(lambda: is_accepted(rig, refused))  # by the same request, sent again
        leader.kill()
        wait_until(lambda: rig.redis.is_led_by(follower))
        for job in (kept, refused):
            assert rig.job(job.id).status is JobStatus.QUEUED


def submit_strictly(rig, job):
    async def submit():
        redis = connect(rig.redis.url)
        confirm = confirming(Durability.STRICT, rig.redis.url)
        try:
            await JobStore(redis, max_queue=10, confirm=confirm).submit([job])
        finally:
            await redis.aclose()

    asyncio.run(submit())


def is_accepted(rig, job):
    try:
        submit_strictly(rig, job)
    except StoreUnavailable:
        return False
    return True
