import json

import httpx
import pytest

from atelier_client import JobStatus
from tests.e2e.waiting import made, make, until

pytestmark = pytest.mark.e2e


def task(flower, job_id):
    answer = flower.get(f"/api/task/info/{job_id}")
    return answer.json() if answer.status_code == 200 else {}


def test_flower_asks_for_the_password_of_the_secrets_file(service):
    assert httpx.get(f"{service.addresses.flower}/api/tasks").status_code == 401
    wrong = httpx.get(f"{service.addresses.flower}/api/tasks", auth=("atelier", "wrong"))
    assert wrong.status_code == 401


def test_flower_knows_the_workers(service, flower):
    def names():
        workers = flower.get("/api/workers", params={"refresh": "1"}).json()
        return {name.partition("@")[0] for name in workers}

    until(lambda: names() == {"worker-1", "cpu", "control"})


def test_flower_shows_a_job_with_its_runtime_and_nothing_of_its_prompt(client, flower):
    job = make(client, prompt="a purple ring")
    until(lambda: task(flower, job.id).get("state") == "SUCCESS")
    shown = task(flower, job.id)
    assert shown["name"] == "tasks.generate"
    assert shown["worker"].startswith("worker-1@")
    made_s = job.timing.total_s - job.timing.queue_s
    assert shown["runtime"] == pytest.approx(made_s, abs=5.0)
    assert "purple" not in json.dumps(shown)


def test_revoke_stops_a_running_job_and_frees_its_slots(client, flower, http):
    job = client.jobs.create(prompt="a blue square", steps=1000, n=4)
    until(lambda: client.jobs.get(job.id).progress.step >= 2)
    answer = flower.post(f"/api/task/revoke/{job.id}", params={"terminate": "true"})
    assert answer.status_code == 200
    ended = made(client, job.id)
    assert ended.status is JobStatus.CANCELED
    assert ended.progress.step < 1000
    until(lambda: sum(w["running"] for w in http.get("/v1/fleet").json()["workers"]) == 0)
    until(lambda: task(flower, job.id).get("state") == "REVOKED")
