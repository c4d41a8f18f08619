"""Nothing is lost and nothing ends twice, whoever is killed. Full figures: `bench.faults`."""

import signal
import time

import pytest

from bench.fault.scenario import run
from bench.fault.storm import Storm
from core.job import JobStatus
from storage.jobs.integrity import check_integrity
from tests.rig import DEADLY, POISON, a_rig, new_job

pytestmark = pytest.mark.integration


@pytest.mark.long
def test_every_accepted_job_ends_once_whatever_is_killed(tmp_path):
    found = run(Storm, tmp_path)
    assert found.accepted == 60
    assert found.statuses == {JobStatus.SUCCEEDED: 60}
    assert (found.lost, found.stuck, found.ended_again) == (0, 0, 0)
    assert (found.stale, found.broken) == (0, 0)
    assert found.worker_exits == 0
    assert found.contradictions == 0


def test_a_worker_that_wakes_up_after_its_lease_publishes_nothing(tmp_path, ringing):
    with a_rig(tmp_path, **ringing()) as rig:
        rig.upkeep()
        stalled = rig.worker("stalled")
        rig.wait_for_worker("stalled")
        job = new_job(steps=400)
        rig.submit(job)
        first = rig.wait_for(job.id, JobStatus.RUNNING)
        stalled.send_signal(signal.SIGSTOP)
        rig.worker("other")
        done = rig.wait_for(job.id, JobStatus.SUCCEEDED)
        stalled.send_signal(signal.SIGCONT)
        time.sleep(2.0)
        assert rig.job(job.id) == done
        assert done.worker == "other@rig" and done.fence > first.fence
        assert [image.key for image in done.images] == [f"t/{job.id}/{done.fence}/0.png"]
        assert stalled.poll() is None
        again = new_job()
        rig.submit(again)
        rig.wait_for(again.id, JobStatus.SUCCEEDED)


def test_jobs_whose_indexes_and_messages_are_lost_are_made(tmp_path, ringing):
    with a_rig(tmp_path, **ringing()) as rig:
        rig.upkeep()
        lost = rig.worker("lost", ATELIER_MAX_SLOTS="1")
        rig.wait_for_worker("lost")
        running, *queued = jobs = [new_job(steps=500), new_job(), new_job()]
        rig.submit(*jobs)
        first = rig.wait_for(running.id, JobStatus.RUNNING)
        with rig.client() as client:
            lost.kill()
            client.delete("leases", "queues", "waiting:gen.slow", "gen.slow", "tenant:t")
        rig.worker("other")
        for job in queued:
            rig.wait_for(job.id, JobStatus.SUCCEEDED)
        assert rig.wait_for(running.id, JobStatus.SUCCEEDED).fence > first.fence
        with rig.client() as client:
            assert check_integrity(client, is_quiet=True) == []


def test_a_job_whose_worker_woke_up_and_whose_message_was_lost_is_made_again(tmp_path):
    """Its images under the old fence, if there are any, go; how a late report is refused is
    a matter of `tests/contract` and `tests/unit/worker/jobs/test_executor.py`. It renews its lease
    as rarely as may be, and one is much longer than the 4.2 s that the job takes."""
    with a_rig(tmp_path, ATELIER_LEASE_S="8", ATELIER_BEAT_S="4") as rig:
        rig.upkeep()
        stalled = rig.worker("stalled")
        rig.wait_for_worker("stalled")
        job = new_job(steps=400)
        rig.submit(job)
        first = rig.wait_for(job.id, JobStatus.RUNNING)
        stalled.send_signal(signal.SIGSTOP)
        rig.wait_for(job.id, JobStatus.QUEUED)
        with rig.client() as client:  # nobody else is there to take it
            client.delete("gen.slow")
        stalled.send_signal(signal.SIGCONT)
        rig.wait_until(lambda: rig.stats().get("republished", 0) >= 1)
        done = rig.wait_for(job.id, JobStatus.SUCCEEDED)
        assert done.fence > first.fence
        assert [image.key for image in done.images] == [f"t/{job.id}/{done.fence}/0.png"]
        folder = tmp_path / "data" / "objects" / "t" / job.id
        rig.wait_until(lambda: [p.name for p in folder.iterdir()] == [str(done.fence)])
        with rig.client() as client:
            assert check_integrity(client, is_quiet=True) == []


def test_jobs_beside_a_poisonous_one_succeed_and_it_alone_is_buried(tmp_path):
    """With one attempt each: whoever was charged for a death that it shared would be buried."""
    env = {"ATELIER_MAX_ATTEMPTS": "1", "ATELIER_MAX_SLOTS": "8", "ATELIER_LEASE_S": "6"}
    with a_rig(tmp_path, models=(DEADLY,), **env) as rig:
        rig.upkeep()
        seeds = [1, 2, 3, POISON, 5, 6]
        jobs = {seed: new_job(model="deadly", steps=20, seed=seed) for seed in seeds}
        # The first is in hand yet when the poisonous one comes, however slowly they are taken.
        jobs[1] = new_job(model="deadly", steps=300, seed=1)
        rig.submit(*jobs.values())
        for _ in range(2):  # once with all of them in hand, once with the poisonous alone
            assert rig.worker("w").wait(120.0) == -signal.SIGKILL
        rig.worker("w")
        poison = jobs.pop(POISON)
        for job in jobs.values():
            rig.wait_for(job.id, JobStatus.SUCCEEDED)
        failure = rig.wait_for(poison.id, JobStatus.FAILED).failure
        assert failure is not None and failure.type == "attempts_exhausted"
        assert rig.stats()["jobs_dead"] == 1
        with rig.client() as client:
            assert check_integrity(client, is_quiet=True) == []
