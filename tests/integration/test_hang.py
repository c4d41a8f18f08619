"""A worker that hangs in a step, as a real process."""

import pytest

from core.job import JobStatus
from tests.rig import PATIENCE_S, a_rig, new_job
from tests.slow import HANG
from worker.process.engine_exit import HUNG_ENGINE

pytestmark = pytest.mark.integration


def test_a_worker_that_hangs_in_a_step_hands_its_jobs_on_and_ends(tmp_path):
    with a_rig(tmp_path) as rig:
        rig.upkeep()
        hung = rig.worker("w")
        rig.wait_for_worker("w")
        known = new_job(steps=20)
        rig.submit(known)
        rig.wait_for(known.id, JobStatus.SUCCEEDED)
        job = new_job(steps=500)
        rig.submit(job)
        first = rig.wait_for(job.id, JobStatus.RUNNING)
        (tmp_path / "data" / HANG).touch()
        assert hung.wait(PATIENCE_S) == HUNG_ENGINE
        with rig.client() as client:
            assert not client.hexists("fleet", "w@rig")
        said = (tmp_path / "w.log").read_text()
        assert "engine_hangs" in said and job.id in said
        rig.worker("w")
        done = rig.wait_for(job.id, JobStatus.SUCCEEDED)
        assert done.fence > first.fence
