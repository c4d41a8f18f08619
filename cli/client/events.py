"""Parse a stream of server-sent events. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a job's stream."""

    id: str  #: resume after it; empty if the stream gave none
    event: str  #: `status`, `progress` or `done`
    data: Mapping[str, object]


def parse_events(lines: Iterable[str]) -> Iterator[Event]:
    """Read events; comments (heartbeats) and unknown fields are skipped.

    Source: HTML Living Standard, section 9.2.6 "Interpreting an event stream".
    """
    fields: dict[str, str] = {}
    for line in lines:
        if not line:
            if "data" in fields:
                yield _event(fields)
            fields = {"id": fields["id"]} if "id" in fields else {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" in fields else value


def _event(fields: Mapping[str, str]) -> Event:
    data = msgspec.json.decode(fields["data"], type=dict[str, object])
    return Event(id=fields.get("id", ""), event=fields.get("event", "message"), data=data)
