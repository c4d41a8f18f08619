"""One worker, two models: whichever a job names is loaded for it, and the job is told when."""

import time

import pytest

from atelier_client import JobStatus
from cli.client.options import connect
from cli.stack.running import running
from tests.e2e.lean import BEST, NO_CONTROLNETS, one_model
from tests.e2e.waiting import made

pytestmark = pytest.mark.e2e


def test_jobs_that_name_a_model_nobody_holds_are_made_as_soon_as_they_were_told(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    (models / "shapes-tiny").symlink_to(BEST.parent / "shapes-tiny")
    env = {**NO_CONTROLNETS, **one_model(models)}
    with (
        running(tmp_path / "data", env=env) as service,
        connect(service.addresses.api, None) as client,
    ):
        for asked in ({"model": "shapes-tiny"}, {"quality": "exact"}, {"model": "shapes-tiny"}):
            began = time.monotonic()
            job = client.jobs.create(**{"prompt": "a red circle", "steps": 20, **asked})
            ended = made(client, job.id)
            seconds = time.monotonic() - began
            assert ended.status is JobStatus.SUCCEEDED
            assert ended.placement.model == asked.get("model", BEST.name)
            assert job.eta_s is not None
            assert job.eta_s / 5 < seconds < 3 * job.eta_s + 10.0
