"""Bells over RabbitMQ that come twice, late, or never; and RabbitMQ itself away."""

import time
from itertools import count

import pytest
from kombu import Connection

from core.job import JobStatus, Priority
from storage.redis.connect import connect_sync
from tasks.bells import Bells
from tasks.messages import envelope
from tests.rig import a_rig, new_job
from tests.servers import rabbitmq_server

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(400)]
QUEUE = "gen.slow"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    server = rabbitmq_server(tmp_path_factory.mktemp("rabbitmq"))
    yield server
    server.stop()


numbers = count()


@pytest.fixture
def url(broker):
    return f"{broker.url}/v{next(numbers)}"


@pytest.fixture
def rig(tmp_path, url):
    with a_rig(tmp_path, ATELIER_BROKER_URL=url, ATELIER_LEASE_S="8") as rig:  # nobody dies here
        rig.worker("w")
        rig.wait_for_worker("w")
        yield rig


@pytest.fixture
def bells(url):
    bells = Bells(url)
    yield bells
    bells.close()


def made(rig, *jobs):
    return [rig.wait_for(job.id, JobStatus.SUCCEEDED) for job in jobs]


def test_queues_are_quorum_queues(rig, url):
    job = new_job()
    rig.submit(job)
    made(rig, job)
    with Connection(url) as connection:
        channel = connection.default_channel
        classic = {"x-queue-type": "classic"}
        with pytest.raises(connection.channel_errors, match="PRECONDITION_FAILED"):
            channel.queue_declare(QUEUE, durable=True, auto_delete=False, arguments=classic)


def test_a_bell_that_rings_fifty_times_makes_a_job_once(rig, bells):
    job = new_job()
    rig.submit(job)
    for _ in range(50):
        bells.ring(QUEUE, envelope(job.id, QUEUE, 0).encode())
    (done,) = made(rig, job)
    rig.wait_until(lambda: bells.waiting(QUEUE) == 0)
    assert done.attempts == 1
    after = new_job()
    rig.submit(after)
    (done,) = made(rig, after)
    assert done.attempts == 1


def test_no_more_jobs_are_held_than_a_worker_may(rig):
    jobs = [new_job(steps=100) for _ in range(40)]
    rig.submit(*jobs)
    most = 0
    with rig.client() as client:
        while any(not rig.job(job.id).status.is_terminal for job in jobs):
            most = max(most, client.scard("held:w@rig"))
    assert 1 < most <= 8


def test_bells_that_are_lost_are_rung_again(rig, url):
    first = [new_job(steps=1000) for _ in range(8)]  # so many that no bell is heard meanwhile
    rig.submit(*first)
    for job in first:
        rig.wait_for(job.id, JobStatus.RUNNING)
    lost = [new_job(priority=Priority.BATCH), new_job(), new_job()]
    rig.submit(*lost)
    with Connection(url) as connection:
        purged = 0
        until = time.monotonic() + 60.0
        while purged < len(lost) and time.monotonic() < until:
            purged += connection.default_channel.queue_purge(QUEUE) or 0
    assert purged == len(lost)
    for job in first:
        rig.cancel(job.id)
    made(rig, *lost)


def test_what_is_submitted_while_rabbitmq_is_away_is_made_when_it_is_back(rig, broker):
    running = new_job(steps=600)
    rig.submit(running)
    rig.wait_for(running.id, JobStatus.RUNNING)
    broker.stop()
    waiting = [new_job() for _ in range(3)]
    rig.submit(*waiting)
    made(rig, running)
    broker.start()
    made_ = [rig.wait_for(job.id, JobStatus.SUCCEEDED) for job in waiting]
    assert [job.attempts for job in made_] == [1, 1, 1]
    assert rig.processes["w"].poll() is None


def test_a_message_that_no_worker_could_read_is_dropped(rig, url):
    with Connection(url) as connection:
        producer = connection.Producer()
        producer.publish(b"\xff", exchange="", routing_key=QUEUE, content_type="nonsense")
        producer.publish({"a": 1}, exchange="", routing_key=QUEUE)
    with connect_sync(rig.redis.url) as client:
        client.lpush(QUEUE, b"no message")
    job = new_job()
    rig.submit(job)
    made(rig, job)
    assert rig.processes["w"].poll() is None
