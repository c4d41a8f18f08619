"""What dies comes back, and no accepted job is lost. Each test ends what it needs: one service
for all of them, in the order of the file."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from atelier_client import Client, JobStatus
from cli.client.options import connect
from cli.stack.running import Addresses, Running, running
from tests.e2e.lean import paced_models
from tests.e2e.waiting import made, make, until, until_written
from tests.unit.cli.toys import is_alive

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: Short leases, so that nobody waits long for a worker that is gone.
LEASES = {
    "ATELIER_LEASE_S": "3",
    "ATELIER_BEAT_S": "0.5",
    "ATELIER_PLAN_PERIOD_S": "2",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("crash")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    return LEASES | paced_models(tmp_path_factory.mktemp("models"), paced=0.1)


@pytest.fixture(scope="module")
def stack(folder, environment) -> Iterator[Running]:
    with running(folder, env=environment) as service:
        yield service


@pytest.fixture
def client(stack) -> Iterator[Client]:
    with connect(stack.addresses.api, None) as client:
        yield client


def children(addresses, name):
    """Process ids of a program's own children, such as a worker's CPU processes."""
    threads = Path(f"/proc/{addresses.pids[name]}/task")
    return [int(text) for each in threads.glob("*/children") for text in each.read_text().split()]


def test_jobs_of_a_worker_that_is_killed_are_made_by_the_next(stack, client):
    long = {"prompt": "a blue square", "steps": 30, "seed": 4, "quality": "exact"}
    jobs = [client.jobs.create(**long).id for _ in range(3)]
    until(lambda: client.jobs.get(jobs[0]).progress.step >= 2)
    helpers = children(stack.addresses, "worker-1")
    assert helpers
    os.kill(stack.addresses.pids["worker-1"], signal.SIGKILL)
    ended = [made(client, job_id) for job_id in jobs]
    assert {job.status for job in ended} == {JobStatus.SUCCEEDED}
    assert len({job.images[0].sha256 for job in ended}) == 1
    assert not any(is_alive(pid) for pid in helpers)


def test_a_store_that_is_killed_forgets_nothing(stack, client):
    before = make(client)
    until_written(stack.addresses.store)
    os.kill(stack.addresses.pids["store"], signal.SIGKILL)
    until(lambda: answers(client))
    assert client.jobs.get(before.id).images[0].sha256 == before.images[0].sha256
    assert make(client).status is JobStatus.SUCCEEDED


def test_jobs_are_placed_by_the_last_plan_while_the_scheduler_is_gone(stack, client):
    os.kill(stack.addresses.pids["scheduler"], signal.SIGKILL)
    assert make(client).status is JobStatus.SUCCEEDED


def test_stopping_lets_running_jobs_finish_and_leaves_no_process(
    stack, client, folder, environment
):
    pids = dict(stack.addresses.pids)
    helpers = children_of_all(stack)
    job = client.jobs.create(prompt="a red circle", steps=30, seed=6)
    until(lambda: client.jobs.get(job.id).progress.step >= 1)
    assert stack.stop() == 0
    assert not any(is_alive(pid) for pid in (*pids.values(), *helpers))
    with whoever_runs(folder, environment) as (owner, again), connect(again.api, None) as client:
        ended = client.jobs.get(job.id)
        assert ended.status is JobStatus.SUCCEEDED
        assert client.images.fetch(ended.images[0])
        helpers = children(again, "worker-1")
        owner.kill()
        until(lambda: not any(is_alive(pid) for pid in (*again.pids.values(), *helpers)))


@contextmanager
def whoever_runs(folder, environment):
    """A process that runs a service, and where that is."""
    program = f"""
import msgspec
from pathlib import Path
from cli.stack.running import running
with running(Path({str(folder)!r})) as service:
    print(msgspec.json.encode(service.addresses).decode(), flush=True)
    service.process.wait()
"""
    command, env = [sys.executable, "-c", program], {**os.environ, **environment}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            yield process, msgspec.json.decode(process.stdout.readline(), type=Addresses)
        finally:
            process.kill()


def answers(client):
    try:
        return client.jobs.list(limit=1)
    except Exception:
        return None


def children_of_all(stack):
    found = []
    for name in stack.addresses.pids:
        if is_alive(stack.addresses.pids[name]):
            found += children(stack.addresses, name)
    return found
