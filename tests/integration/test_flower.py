"""Flower sees our tasks as it sees any other, and can revoke them."""

import time

import httpx
import pytest
from celery import Celery

from cli.stack.ports import free_port
from core.job import JobStatus
from tests.rig import a_rig, new_job

pytestmark = pytest.mark.integration

AUTH = ("operator", "secret")


@pytest.fixture(scope="module")
def rig(tmp_path_factory, ringing):
    with a_rig(tmp_path_factory.mktemp("rig"), **ringing()) as rig:
        rig.worker("w")
        rig.wait_for_worker("w")
        yield rig


@pytest.fixture(scope="module")
def flower(rig):
    port = free_port()
    words = ["--address=127.0.0.1", f"--port={port}", "--basic-auth=operator:secret"]
    rig.start("flower", "celery", "-A", "tasks.app", "flower", *words)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", auth=AUTH, timeout=10.0) as client:
        rig.wait_until(lambda: answers(client, "/healthcheck"))
        rig.wait_until(lambda: "w@rig" in client.get("/api/workers?refresh=1").json())
        rig.wait_until(lambda: is_shown(rig, client))  # it asks workers for events by and by
        yield client


@pytest.fixture(scope="module")
def control(rig):
    app = Celery("operator", broker=rig.env.get("ATELIER_BROKER_URL", rig.redis.url))
    yield app.control
    app.close()


def answers(client, path):
    try:
        return client.get(path).status_code == 200
    except httpx.HTTPError:
        return False


def task_of(flower, job_id):
    answer = flower.get(f"/api/task/info/{job_id}")
    return answer.json() if answer.status_code == 200 else {}


def is_shown(rig, flower):
    job = new_job()
    rig.submit(job)
    rig.wait_for(job.id, JobStatus.SUCCEEDED)
    return bool(task_of(flower, job.id))


def wait_for_state(rig, flower, job_id, state):
    rig.wait_until(lambda: task_of(flower, job_id).get("state") == state)
    return task_of(flower, job_id)


def test_a_stranger_sees_nothing(flower):
    assert httpx.get(f"{flower.base_url}/api/tasks").status_code == 401


def test_a_task_is_shown_with_the_seconds_its_job_took(rig, flower):
    job = new_job(steps=60)
    rig.submit(job)
    rig.wait_for(job.id, JobStatus.SUCCEEDED)
    task = wait_for_state(rig, flower, job.id, "SUCCESS")
    assert task["name"] == "tasks.generate"
    assert task["worker"] == "w@rig"
    assert task["runtime"] >= 0.6
    assert "prompt" not in str(task)
    assert "red circle" not in str(task)


def test_a_task_canceled_through_the_api_is_shown_as_revoked(rig, flower):
    job = new_job(steps=1000)
    rig.submit(job)
    rig.wait_for(job.id, JobStatus.RUNNING)
    rig.cancel(job.id)
    wait_for_state(rig, flower, job.id, "REVOKED")


def test_revoking_a_running_task_stops_it_within_a_step(rig, flower):
    job = new_job(steps=1000)
    rig.submit(job)
    rig.wait_until(lambda: rig.job(job.id).progress.step > 0)
    flower.post(f"/api/task/revoke/{job.id}?terminate=true").raise_for_status()
    done = rig.wait_for(job.id, JobStatus.CANCELED)
    stopped_at = rig.job(job.id).progress.step
    time.sleep(0.5)
    assert rig.job(job.id).progress.step == stopped_at
    assert stopped_at < 1000 and done.images == ()
    assert wait_for_state(rig, flower, job.id, "REVOKED")["runtime"] is None


def test_a_task_revoked_before_it_starts_is_a_canceled_job(rig, control):
    fillers = [new_job(steps=500) for _ in range(8)]
    rig.submit(*fillers)
    for filler in fillers:
        rig.wait_for(filler.id, JobStatus.RUNNING)
    job = new_job()
    rig.submit(job)
    control.revoke(job.id)
    rig.wait_for(job.id, JobStatus.CANCELED)
    for filler in fillers:
        rig.wait_for(filler.id, JobStatus.SUCCEEDED)


def test_inspect_shows_what_runs(rig, control):
    job = new_job(steps=1000)
    rig.submit(job)
    rig.wait_for(job.id, JobStatus.RUNNING)
    inspect = control.inspect(["w@rig"], timeout=60.0)

    def shown():
        return [task["id"] for task in inspect.active()["w@rig"]]

    rig.wait_until(lambda: shown() == [job.id])  # Celery hears of each a moment after the store
    rig.cancel(job.id)


def test_the_broker_holds_nothing_unacknowledged(rig):
    with rig.client() as client:
        assert client.hlen("unacked") == 0
