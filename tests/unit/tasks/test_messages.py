import json
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st
from kombu.transport.virtual import Message
from kombu.transport.virtual.base import Base64

from storage.jobs.jobs import TAG
from tasks.app import app
from tasks.messages import GENERATE, QUEUE_PRIORITY, envelope

CHANNEL = SimpleNamespace(
    decode_body=lambda body, encoding: Base64().decode(body) if encoding else body,
    no_ack_consumers=None,
)


def read(text):
    """What a worker's kombu makes of a message on a list."""
    return Message(
        json.loads(text.replace(TAG, "tag-1")), channel=CHANNEL, accept={"application/json"}
    )


def test_a_message_is_what_celery_itself_would_send():
    ours = read(envelope("j1", "gen.m", 0))
    theirs = app.amqp.as_task_v2("j1", GENERATE, ("j1",), {}, ignore_result=True)
    assert tuple(ours.headers) == tuple(theirs.headers)
    assert {**ours.headers, "origin": theirs.headers["origin"]} == theirs.headers
    assert [list(theirs.body[0]), theirs.body[1], theirs.body[2]] == ours.payload
    assert theirs.properties.items() <= ours.properties.items()


@given(st.uuids().map(lambda u: u.hex), st.sampled_from(sorted(QUEUE_PRIORITY.values())))
def test_any_job_id_arrives_as_the_only_argument(job_id, priority):
    message = read(envelope(job_id, "gen.m", priority))
    assert message.payload[0] == [job_id]
    assert message.headers["id"] == message.properties["correlation_id"] == job_id
    assert message.properties["priority"] == priority
    assert message.delivery_info == {"exchange": "", "routing_key": "gen.m"}
    assert message.delivery_tag == "tag-1"


def test_a_person_who_waits_is_served_before_a_batch():
    assert QUEUE_PRIORITY["interactive"] < QUEUE_PRIORITY["batch"]
