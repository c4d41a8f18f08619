"""Which messages are read, and that whatever else there is is refused and raises nothing else."""

import json
import re
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.fault.garbage import garbage
from tasks.app import app
from tasks.messages import envelope
from tasks.reading import TASKS, Unreadable, check

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
#: A type of error and a path of our own names.
QUOTES_NOTHING = re.compile(r"unknown task|\w+Error( `\$[\w.\[\]]*`)?")
WHOLE = json.loads(envelope("j1", "gen.m", 0))
BODY = b64decode(WHOLE["body"])


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
