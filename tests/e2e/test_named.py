"""One worker, two models: whichever a job names is loaded for it, and the job is told when."""

import pytest

from atelier_client import JobStatus
from cli.client.options import connect
from cli.stack.running import running
from tests.e2e.lean import paced_models
from tests.e2e.waiting import made, until

pytestmark = [pytest.mark.e2e, pytest.mark.long]

LOAD_S = 1.5


def test_jobs_that_name_a_model_nobody_holds_are_made_as_soon_as_they_were_told(tmp_path):
    env = paced_models(tmp_path / "models", one=LOAD_S, other=LOAD_S)
    env |= {"ATELIER_PRELOAD": '["one"]'}
    eta_s = []
    with (
        running(tmp_path / "data", env=env) as service,
        connect(service.addresses.api, None) as client,
    ):
        until(lambda: holds(client) == ["one"])
        for model in ("other", "one", "other"):
            job = client.jobs.create(prompt="a red circle", steps=4, model=model)
            ended = made(client, job.id)
            assert (ended.status, ended.placement.model) == (JobStatus.SUCCEEDED, model)
            eta_s.append(job.eta_s)
        assert all(eta_s) and eta_s[0] > LOAD_S, "nobody held the first"


def holds(client):
    return [model for worker in client.service.fleet().workers for model in worker.models]
