"""Messages are Celery's own; whatever else comes is refused and raises nothing else."""

import json
import re
from base64 import b64decode
from types import SimpleNamespace

import pytest
from celery.app.task import Context
from hypothesis import given
from hypothesis import strategies as st
from kombu.transport.virtual import Message
from kombu.transport.virtual.base import Base64

from bench.fault.garbage import garbage
from core.schema import SCHEMA, Versioned
from storage.jobs.submit import TAG
from tasks.app import app
from tasks.messages import GENERATE, QUEUE_PRIORITY, TASKS, Unreadable, check, envelope

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
#: A type of error and a path of our own names.
QUOTES_NOTHING = re.compile(r"unknown task|\w+Error( `\$[\w.\[\]]*`)?")
WHOLE = json.loads(envelope("j1", "gen.m", 0))
#: What Celery writes of a sender, and reads of a task itself: whether its result is kept.
SAID_BY_NOBODY = {"lang", "origin", "kwargsrepr", "root_id", "ignore_result", "timelimit"}
BODY = b64decode(WHOLE["body"])
CHANNEL = SimpleNamespace(
    decode_body=lambda body, encoding: Base64().decode(body) if encoding else body,
    no_ack_consumers=None,
)


def read(text):
    """What a worker's kombu makes of a message on a list."""
    return Message(
        json.loads(text.replace(TAG, "tag-1")), channel=CHANNEL, accept={"application/json"}
    )


def test_a_message_says_what_celery_would_but_for_what_it_reads_as_the_same_if_it_is_missing():
    ours = read(envelope("j1", "gen.m", 0))
    theirs = app.amqp.as_task_v2("j1", GENERATE, ("j1",), {}, ignore_result=True)
    assert theirs.headers | {"schema": ours.headers["schema"]} | ours.headers == (
        theirs.headers | {"schema": ours.headers["schema"]}
    )
    assert ours.properties["correlation_id"] == theirs.properties["correlation_id"]
    whole, bare = Context(theirs.headers), Context(ours.headers)
    for name in theirs.headers.keys() - ours.headers.keys() - SAID_BY_NOBODY:
        assert (getattr(whole, name) or None) == (getattr(bare, name) or None), name
    assert [list(theirs.body[0]), theirs.body[1]] == ours.payload[:2]
    assert not any(theirs.body[2].values()) and ours.payload[2] is None


def test_a_message_of_the_version_before_is_read():
    headers = WHOLE["headers"] | {"lang": "py", "retries": 0, "timelimit": [None, None]}
    embedded = b'[["j1"], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]'
    check(parts(WHOLE) | {"headers": headers}, embedded)


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


def parts(message):
    """Read a message as kombu does."""
    return {
        "headers": message["headers"],
        "properties": message["properties"],
        "content_type": message["content-type"],
        "content_encoding": message["content-encoding"],
    }


def test_our_own_message_is_read():
    check(parts(WHOLE), BODY)


def test_a_message_says_its_form_and_a_newer_one_is_refused():
    headers = WHOLE["headers"]
    assert headers["schema"] == SCHEMA.stamp(Versioned.MESSAGE)
    newer = parts(WHOLE) | {"headers": headers | {"schema": SCHEMA.number + 1}}
    with pytest.raises(Unreadable, match="a newer one wrote it"):
        check(newer, BODY)


def test_a_message_without_a_number_is_read():
    headers = {name: value for name, value in WHOLE["headers"].items() if name != "schema"}
    check(parts(WHOLE) | {"headers": headers}, BODY)


def test_every_task_is_known():
    app.loader.import_default_modules()
    assert {name for name in app.tasks if not name.startswith("celery.")} == TASKS


@given(st.dictionaries(st.sampled_from(list(parts(WHOLE))), JSON), JSON | st.binary())
def test_any_part_may_be_anything(changed, body):
    text = body if isinstance(body, bytes) else json.dumps(body)
    try:
        check(parts(WHOLE) | changed, text)
    except Unreadable as error:
        assert QUOTES_NOTHING.fullmatch(str(error))


@given(st.sampled_from(["headers", "properties"]), st.data())
def test_any_field_may_be_anything(part, data):
    whole = parts(WHOLE)
    name = data.draw(st.sampled_from(list(whole[part])))
    try:
        check(whole | {part: whole[part] | {name: data.draw(JSON)}}, BODY)
    except Unreadable:
        return


def test_deep_nesting_is_refused():
    with pytest.raises(Unreadable):
        check(parts(WHOLE), b"[" * 100_000)


def test_the_samples_of_the_fault_suite_are_each_refused_for_a_reason_that_quotes_nothing():
    for sample in garbage():
        try:
            message = json.loads(sample)
            check(parts(message), b64decode(message["body"], validate=True))
        except Unreadable as error:
            assert QUOTES_NOTHING.fullmatch(str(error))
        except (ValueError, TypeError, KeyError):  # before it comes so far
            continue
        else:
            assert message["properties"]["body_encoding"] == "no-such"  # kombu refuses that
