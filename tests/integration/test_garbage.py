"""Real workers whose queues hold what nobody sent: they go on, and nothing of it is in a log."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from signal import SIGCONT, SIGSTOP

import pytest
from celery import Celery
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kombu import Connection

from bench.fault.garbage import QUEUE, garbage
from core.job import JobStatus
from core.placement import CPU_QUEUE
from core.settings import Settings
from storage.redis.keys import PRIORITIES, list_of
from tasks.app import make_app
from tasks.messages import TASKS, envelope
from tests.rig import a_rig, new_job
from tests.servers import redis_server

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    with a_rig(tmp_path_factory.mktemp("garbage")) as rig:
        rig.upkeep()
        rig.worker("w0")
        rig.cpu_worker()
        rig.wait_for_worker("w0")
        rig.wait_until(lambda: b" ready." in (rig.folder / "cpu.log").read_bytes())
        yield rig


def test_workers_drop_what_they_cannot_read_count_it_and_go_on(rig):
    lists = [list_of(queue, each) for queue in (QUEUE, CPU_QUEUE) for each in PRIORITIES]
    with rig.client() as client:
        for name in lists:
            client.rpush(name, *garbage(), b"a secret {{{")
        rig.wait_until(lambda: not any(client.llen(name) for name in lists))
    sent = len(lists) * (len(garbage()) + 1)
    rig.wait_until(lambda: rig.stats().get("messages_unreadable") == sent)
    job = new_job()
    rig.submit(job)
    rig.wait_for(job.id, JobStatus.SUCCEEDED)
    assert all(rig.processes[name].poll() is None for name in ("w0", "cpu"))
    assert "a secret" not in rig.logs()


def test_a_job_whose_message_became_garbage_is_published_again(rig):
    job, workers = new_job(), [rig.processes[name] for name in ("w0", "cpu")]
    with rig.client() as client:
        for worker in workers:
            worker.send_signal(SIGSTOP)
        rig.wait_until(lambda: client.info("clients")["blocked_clients"] == 0)  # nobody pops
        rig.submit(job)
        client.lset(QUEUE, 0, "{")
        for worker in workers:
            worker.send_signal(SIGCONT)
    done = rig.wait_for(job.id, JobStatus.SUCCEEDED)
    assert done.attempts == 1
    assert rig.stats()["republished"] >= 1


def test_other_workers_are_told_garbage_by_broadcast_and_go_on(rig):
    with rig.client() as client:
        for text in ("7", "{", "[]", "{}", '{"properties": {}}'):
            client.publish("/0.celery.pidbox", text)
    job = new_job()
    rig.submit(job)
    rig.wait_for(job.id, JobStatus.SUCCEEDED)
    assert rig.processes["w0"].poll() is None


@dataclass
class Reading:
    app: Celery
    connection: Connection
    delivered: list  #: messages
    push: Callable[[str | bytes], None]  #: puts text on a queue, and a good message after it


@pytest.fixture(scope="module")
def reading(tmp_path_factory):
    """Read a queue in this process."""
    server = redis_server(tmp_path_factory.mktemp("redis"))
    app = make_app(Settings(redis_url=server.url))
    delivered = []
    with app.connection_for_read() as connection:
        channel = connection.default_channel
        consumer = app.amqp.TaskConsumer(channel)
        consumer.on_message = delivered.append
        consumer.consume()

        def push(text):
            delivered.clear()
            channel.client.lpush(CPU_QUEUE, text)
            channel.client.lpush(CPU_QUEUE, envelope("good", CPU_QUEUE, 0))
            while not any(message.headers["id"] == "good" for message in delivered):
                connection.drain_events(timeout=60)

        yield Reading(app, connection, delivered, push)
    server.stop()


@pytest.mark.parametrize("task", sorted(TASKS))
def test_what_celery_sends_is_delivered(reading, task):
    reading.delivered.clear()
    reading.app.send_task(task, ("x",), queue=CPU_QUEUE, expires=5.0, priority=0, argsrepr="()")
    while not reading.delivered:
        reading.connection.drain_events(timeout=60)
    assert [message.headers["task"] for message in reading.delivered] == [task]


WHOLE = json.loads(envelope("j1", CPU_QUEUE, 0))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
MESSAGES = (
    st.binary()
    | JSON.map(json.dumps)
    | st.dictionaries(st.sampled_from(list(WHOLE)), JSON).map(lambda c: json.dumps(WHOLE | c))
    | st.dictionaries(st.sampled_from(list(WHOLE["properties"])), JSON).map(
        lambda c: json.dumps(WHOLE | {"properties": WHOLE["properties"] | c})
    )
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=MESSAGES)
def test_whatever_bytes_are_in_a_queue_the_next_message_is_delivered(reading, text):
    reading.push(text)
