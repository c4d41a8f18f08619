"""Follow a job's events: read the stream, resume it where it broke off. Pure.

Source: HTML Living Standard, section 9.2.6 "Interpreting an event stream".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from atelier_client.exchange.flows import checked, read
from atelier_client.exchange.retries import MAX_WAIT_S, PASSING, retry_after_s
from atelier_client.exchange.steps import Answer, Call, Give, Lost, NextLine, Open, Pause, Source
from atelier_client.types.job import DoneEvent, Event, Job, ProgressEvent, StatusEvent

#: Times in a row that a stream or a poll which brings nothing is asked for again, and the pauses
#: before that.
MAX_RECONNECTS: Final = 6
FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 4.0
#: A stream says at least a comment every 15 seconds: who hears nothing for so long opens it again.
SILENCE_S: Final = 60.0
NO_CONTENT: Final = 204
TOO_MANY: Final = 429
_LINE_END: Final = re.compile(r"\r\n|\n|\r(?!\Z)")


class Lines:
    """Cuts what comes into lines: at CR, LF or both, and at nothing else that separates lines."""

    def __init__(self) -> None:
        """Have heard nothing."""
        self._rest = ""

    def feed(self, text: str) -> Sequence[str]:
        """Take a piece; return the lines that it ends. A CR at its end may have its LF to come."""
        *lines, self._rest = _LINE_END.split(self._rest + text)
        return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of an event stream."""

    id: str  #: resume after it; empty: the stream gave none
    event: str
    data: str


class Messages:
    """Puts messages together, line by line."""

    def __init__(self) -> None:
        """Have heard nothing."""
        self._fields: dict[str, str] = {}

    def feed(self, line: str) -> Message | None:
        """Take a line; return the message that it ends. Comments are heartbeats."""
        fields = self._fields
        if not line:
            self._fields = {"id": fields["id"]} if "id" in fields else {}
            return _message(fields) if "data" in fields else None
        name, _, value = line.partition(":")
        if name:
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" in fields else value
        return None


def _message(fields: dict[str, str]) -> Message:
    return Message(id=fields.get("id", ""), event=fields.get("event", ""), data=fields["data"])


def event_of(message: Message) -> Event | None:
    """Read a message; None: of a kind that is not known here."""
    data = message.data.encode()
    match message.event:
        case "status":
            return read(data, StatusEvent)
        case "progress":
            return read(data, ProgressEvent)
        case "done":
            return DoneEvent(job=read(data, Job))
    return None


def follow(call: Call) -> Source[Event]:
    """Give a job's events up to the last one, across connections that break.

    Raises:
        NoAnswer: the stream brings nothing, however often it is opened.
        ProblemError: there is no such job, or the service refuses, however often it is asked.
    """
    last, broken = "", 0
    while True:
        heard = yield Open(_resumed(call, last))
        if isinstance(heard, Answer) and heard.status not in {TOO_MANY, *PASSING}:
            if checked(heard).status == NO_CONTENT:
                return
            messages = Messages()
            while isinstance(heard := (yield NextLine()), str):
                message = messages.feed(heard)
                event = message and event_of(message)
                if not message or not event:
                    continue
                last, broken = message.id or last, 0
                yield Give(event)
                if isinstance(event, DoneEvent):
                    return
        told_s = retry_after_s(heard) if isinstance(heard, Answer) else None
        if broken >= MAX_RECONNECTS or (told_s or 0.0) > MAX_WAIT_S:
            checked(heard or Lost(reason="the stream ends early"))
        yield Pause(pause_s(broken, told_s))
        broken += 1


def pause_s(broken: int, told_s: float | None) -> float:
    """Say how long to wait before what broke off so often in a row is asked for again (s)."""
    return min(MAX_PAUSE_S, FIRST_PAUSE_S * 2**broken) if told_s is None else told_s


def _resumed(call: Call, last: str) -> Call:
    resumed = {"Last-Event-ID": last} if last else {}
    return replace(call, headers={"Accept": "text/event-stream", **resumed}, timeout_s=SILENCE_S)
