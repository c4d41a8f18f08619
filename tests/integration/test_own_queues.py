"""Jobs that are sent to one worker: it takes them, and if it is gone another makes them."""

from dataclasses import replace

import pytest

from cli.stack.ports import free_port
from core.job import JobStatus
from core.placement import own_queue_of
from storage.jobs.submit import NewJob
from storage.redis.keys import QUEUES
from tasks.messages import envelope
from tests.rig import a_rig, new_job

pytestmark = pytest.mark.integration


def sent_to(worker: str) -> NewJob:
    job = new_job()
    queue = own_queue_of(job.placement.queue, f"{worker}@rig")
    message = envelope(job.id, queue, job.priority)
    return replace(job, placement=replace(job.placement, queue=queue), message=message)


def test_what_waits_for_a_worker_that_is_gone_is_made_by_another(tmp_path):
    port = str(free_port())
    url = {"ATELIER_SCHEDULER_PORT": port, "ATELIER_SCHEDULER_URL": f"http://127.0.0.1:{port}"}
    url["ATELIER_LEASE_S"] = "8"  # nobody dies here
    with a_rig(tmp_path, **url) as rig, rig.client() as store:
        rig.start("scheduler", "run.scheduler")
        rig.upkeep()
        rig.worker("here")
        rig.wait_for_worker("here")
        mine, lost = sent_to("here"), sent_to("gone")
        rig.submit(mine, lost)
        assert rig.wait_for(mine.id, JobStatus.SUCCEEDED).placement.queue == "gen.slow@here@rig"
        made = rig.wait_for(lost.id, JobStatus.SUCCEEDED)
        assert (made.placement.queue, made.attempts) == ("gen.slow", 1)
        rig.wait_until(lambda: store.smembers(QUEUES) == {b"gen.slow"})
