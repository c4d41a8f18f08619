"""Wire format of messages, written and checked: Celery protocol 2 without Celery code. Pure.

A Celery v2 message as kombu keeps it in a Redis list, made by replacing three marks in a
text prepared once: no Celery code runs per message. The record is the truth; a message
carries the job's id and nothing else of it, and leaves out what Celery reads as the same if it
is missing: the store keeps it twice, and each script reads it. What comes and is not what this
service sends, or sent, is refused: no worker could read it.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from core.errors import NewerSchema
from core.job import Priority
from core.schema import SCHEMA, Versioned
from storage.jobs.submit import TAG
from worker.control.offers import TASK as CONTROL

GENERATE = "tasks.generate"  #: the task that makes a job's images
WEBHOOK = "tasks.jobs.webhook"  #: the task that posts one webhook

SCORE = "tasks.jobs.score"  #: the task that scores finished images
RETRAIN = "tasks.jobs.retrain"  #: the task that trains the classifier anew

#: Every task there is.
TASKS = frozenset({CONTROL, GENERATE, RETRAIN, SCORE, WEBHOOK})

#: Of what nobody waits for: recordings of templates, and what waits on the CPU queue.
LAST_PRIORITY = 9

#: One of the steps of `storage.redis.keys.PRIORITIES`; 0 is served first.
QUEUE_PRIORITY = {Priority.INTERACTIVE: 0, Priority.BATCH: 6}

_TEMPLATE = json.dumps(
    {
        "body": "@@BODY@@",
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "task": "@@TASK@@",
            "id": "@@ID@@",
            "argsrepr": "('@@ID@@',)",
            "schema": "@@SCHEMA@@",
        },
        "properties": {
            "correlation_id": "@@ID@@",
            "delivery_info": {"exchange": "", "routing_key": "@@QUEUE@@"},
            "priority": "@@PRIORITY@@",
            "body_encoding": "base64",
            "delivery_tag": TAG,
        },
    },
    separators=(",", ":"),
)


def _prepare(task: str) -> str:
    return (
        _TEMPLATE.replace("@@TASK@@", task)
        .replace('"@@PRIORITY@@"', "@@PRIORITY@@")
        .replace('"@@SCHEMA@@"', "@@SCHEMA@@")
    )


_GENERATE = _prepare(GENERATE)


def envelope(job_id: str, queue: str, priority: int) -> str:
    """Write the message that rings for one job; the script that sends it fills in `@@TAG@@`."""
    body = b64encode(f'[["{job_id}"],{{}},null]'.encode()).decode()
    return (
        _GENERATE.replace("@@BODY@@", body)
        .replace("@@ID@@", job_id)
        .replace("@@QUEUE@@", queue)
        .replace("@@PRIORITY@@", str(priority))
        .replace("@@SCHEMA@@", str(SCHEMA.stamp(Versioned.MESSAGE)))
    )


UNREADABLE = "messages_unreadable"  #: those are counted under this name, in the store


class Unreadable(Exception):
    """A message is none of ours. Says what is wrong and quotes nothing of it."""


class _Headers(msgspec.Struct):
    """What Celery reads of a task before it is run, as `tasks.messages` and Celery write it."""

    task: str
    id: str
    schema: int = 1
    eta: None = None
    expires: datetime | None = None
    retries: int | None = None
    timelimit: tuple[float | None, float | None] | None = None
    shadow: str | None = None
    group: str | None = None
    group_index: int | None = None
    root_id: str | None = None
    parent_id: str | None = None
    argsrepr: str | None = None
    kwargsrepr: str | None = None
    origin: str | None = None
    ignore_result: bool | None = None
    stamped_headers: list[str] | None = None
    stamps: dict[str, Any] | None = None
    compression: None = None


class _Target(msgspec.Struct):
    exchange: str
    routing_key: str


class _Properties(msgspec.Struct):
    delivery_tag: str
    delivery_info: _Target
    correlation_id: str | None = None
    reply_to: str | None = None
    priority: int | None = None


class _Embedded(msgspec.Struct, forbid_unknown_fields=True):
    """What is to happen after a task: nothing."""

    callbacks: None = None
    errbacks: None = None
    chain: None = None
    chord: None = None


class _Envelope(msgspec.Struct):
    headers: _Headers
    properties: _Properties
    content_type: Literal["application/json"]
    content_encoding: Literal["utf-8"]


_body = msgspec.json.Decoder(tuple[list[Any], dict[str, Any], _Embedded | None])


def check(envelope: Mapping[str, object], body: bytes | str | None) -> None:
    """Check the parts of one message; its body has been decoded from what it travelled in.

    Raises:
        Unreadable: it would fail in Celery, is a task that nobody knows, or a newer version's:
            then that is rung again for its job, whose record says that it waits.
    """
    try:
        headers = msgspec.convert(envelope, _Envelope).headers
        _body.decode(body or b"")
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError) as error:
        _, _, where = str(error).partition(" - at ")
        raise Unreadable(f"{type(error).__name__} {where}".rstrip()) from None
    try:
        SCHEMA.check(Versioned.MESSAGE, headers.schema, "a queue")
    except NewerSchema as error:
        raise Unreadable(str(error)) from None
    if headers.task not in TASKS:
        raise Unreadable("unknown task")
