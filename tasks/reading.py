"""Refuse messages that are not exactly what this service sends: no worker could read them. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from tasks.messages import GENERATE, RETRAIN, SCORE, WEBHOOK
from worker.control.offers import TASK as CONTROL

#: Every task there is.
TASKS = frozenset({CONTROL, GENERATE, RETRAIN, SCORE, WEBHOOK})


class Unreadable(Exception):
    """A message is none of ours. Says what is wrong and quotes nothing of it."""


class _Headers(msgspec.Struct):
    """What Celery reads of a task before it is run, as `tasks.messages` and Celery write it."""

    task: str
    id: str
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
        Unreadable: it would fail in Celery, or is a task that nobody knows.
    """
    try:
        task = msgspec.convert(envelope, _Envelope).headers.task
        _body.decode(body or b"")
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError) as error:
        _, _, where = str(error).partition(" - at ")
        raise Unreadable(f"{type(error).__name__} {where}".rstrip()) from None
    if task not in TASKS:
        raise Unreadable("unknown task")
