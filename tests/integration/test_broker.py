"""A worker and its broker: lost connections, cancels, shutdowns, dead children."""

import signal
import subprocess
import time

import psutil
import pytest

from core.job import JobStatus, Priority
from tests.rig import a_rig, new_job

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def rig(tmp_path_factory, ringing):
    """One worker for all tests that it survives; no lease runs out while its store is away."""
    with a_rig(tmp_path_factory.mktemp("rig"), ATELIER_LEASE_S="30", **ringing()) as rig:
        rig.worker("w")
        rig.wait_for_worker("w")
        yield rig


@pytest.fixture
def mortal(tmp_path, ringing):
    """A worker of its own for a test that ends it, within much less than the longest job takes."""
    with a_rig(tmp_path, ATELIER_SHUTDOWN_S="6", **ringing()) as rig:
        rig.worker("w")
        rig.wait_for_worker("w")
        yield rig


def test_a_worker_survives_its_broker_and_goes_on(rig):
    running = new_job(steps=400)
    rig.submit(running)
    rig.wait_for(running.id, JobStatus.RUNNING)
    for _ in range(2):
        rig.redis.kill()
        time.sleep(0.5)
        rig.redis.start()
        time.sleep(0.5)
    rig.wait_for(running.id, JobStatus.SUCCEEDED)
    after = new_job()
    rig.submit(after)
    rig.wait_for(after.id, JobStatus.SUCCEEDED)
    assert rig.processes["w"].poll() is None


def test_a_worker_survives_that_its_broker_leads_no_more(rig):
    """It is told while it waits for messages, and refused what it writes, until another leads."""
    running = new_job(steps=400)
    rig.submit(running)
    rig.wait_for(running.id, JobStatus.RUNNING)
    with rig.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        time.sleep(0.5)
        client.execute_command("REPLICAOF", "NO", "ONE")
    after = new_job()
    rig.submit(after)
    rig.wait_for(after.id, JobStatus.SUCCEEDED)
    rig.wait_for(running.id, JobStatus.SUCCEEDED)
    assert rig.processes["w"].poll() is None


def test_a_frozen_broker_costs_no_job(rig):
    running = new_job(steps=400)
    rig.submit(running)
    rig.wait_for(running.id, JobStatus.RUNNING)
    rig.redis.pause()
    time.sleep(1.5)
    rig.redis.resume()
    done = rig.wait_for(running.id, JobStatus.SUCCEEDED)
    assert done.attempts == 1


def test_a_canceled_job_frees_its_slot_for_the_next(rig):
    first, *others = jobs = [new_job(steps=1000) for _ in range(8)]  # as many as it holds
    rig.submit(*jobs)
    for job in jobs:
        rig.wait_until(lambda job=job: rig.job(job.id).progress.step > 0)
    rig.cancel(first.id)
    after = new_job()
    rig.submit(after)
    rig.wait_for(after.id, JobStatus.SUCCEEDED)
    assert {rig.job(job.id).status for job in others} == {JobStatus.RUNNING}
    assert rig.job(first.id).status is JobStatus.CANCELED
    for job in others:
        rig.cancel(job.id)


def test_interactive_jobs_go_before_a_batch_that_waits(rig):
    blockers = [new_job(steps=1000) for _ in range(8)]  # as many as it holds
    rig.submit(*blockers)
    for job in blockers:
        rig.wait_for(job.id, JobStatus.RUNNING)
    batch = [new_job(priority=Priority.BATCH) for _ in range(4)]
    person = new_job()
    rig.submit(*batch)
    rig.submit(person)
    for job in blockers:
        rig.cancel(job.id)
    done = rig.wait_for(person.id, JobStatus.SUCCEEDED)
    for job in batch:
        assert rig.wait_for(job.id, JobStatus.SUCCEEDED).started_at >= done.started_at


def test_a_late_job_is_expired_and_not_made(rig):
    job = new_job(steps=1000, deadline_s=0.5)
    rig.submit(job)
    done = rig.wait_for(job.id, JobStatus.EXPIRED)
    assert done.progress.step < 1000


def test_sigterm_waits_for_what_runs_and_takes_nothing_new(mortal):
    worker, running = mortal.processes["w"], new_job(steps=300)
    mortal.submit(running)
    mortal.wait_for(running.id, JobStatus.RUNNING)
    worker.send_signal(signal.SIGTERM)
    mortal.wait_until(lambda: b"Warm shutdown" in (mortal.folder / "w.log").read_bytes())
    time.sleep(0.5)  # its hub turns ten times a second, and then sees that it is to stop
    queued = new_job()
    mortal.submit(queued)
    assert worker.wait(60) == 0
    assert mortal.job(running.id).status is JobStatus.SUCCEEDED
    assert mortal.job(queued.id).status is JobStatus.QUEUED
    with mortal.client() as client:
        assert not client.hexists("fleet", "w@rig")


def test_sigterm_gives_back_at_once_what_takes_too_long(mortal):
    worker, running = mortal.processes["w"], new_job(steps=1000, n=4)  # as long as it may take
    mortal.submit(running)
    mortal.wait_until(lambda: mortal.job(running.id).progress.step > 0)
    worker.send_signal(signal.SIGTERM)
    job = mortal.wait_for(running.id, JobStatus.QUEUED)
    assert job.attempts == 0
    assert worker.wait(60) == 0


def test_sigquit_gives_jobs_back_at_once(mortal):
    worker, running = mortal.processes["w"], new_job(steps=1000)
    mortal.submit(running)
    mortal.wait_until(lambda: mortal.job(running.id).progress.step > 0)
    worker.send_signal(signal.SIGQUIT)
    job = mortal.wait_for(running.id, JobStatus.QUEUED)
    assert job.attempts == 0
    worker.wait(60)
    if not mortal.env.get("ATELIER_BROKER_URL"):
        with mortal.client() as client:
            assert client.llen("gen.slow") == 1


def test_a_dead_cpu_process_is_replaced_and_no_job_fails(rig):
    job = new_job(steps=400)
    rig.submit(job)
    rig.wait_for(job.id, JobStatus.RUNNING)
    for child in cpu_processes(rig.processes["w"]):
        child.kill()
    rig.wait_for(job.id, JobStatus.SUCCEEDED)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_no_child_outlives_a_killed_worker(mortal, is_stopped):
    job = new_job()
    mortal.submit(job)
    mortal.wait_for(job.id, JobStatus.SUCCEEDED)
    worker = mortal.processes["w"]
    children = psutil.Process(worker.pid).children(recursive=True)
    assert children
    for child in cpu_processes(worker) if is_stopped else ():
        child.suspend()
    worker.kill()
    worker.wait()
    _, alive = psutil.wait_procs(children, timeout=5.0)
    assert not alive


def cpu_processes(worker: "subprocess.Popen[bytes]"):
    found = psutil.Process(worker.pid).children()
    return [p for p in found if "spawn_main" in " ".join(p.cmdline())]
