"""What a flow asks of a transport, and what it hears: requests as data. Pure.

A flow is a generator that yields steps and is sent what came of each. It knows no network, no
clock and no event loop, so one flow serves threads and asyncio.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

Param = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, whose answer is heard whole: `Answer` or `Lost`."""

    method: str
    path: str  #: below the service's URL; of what is signed, a whole URL
    params: Mapping[str, Param] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: object = None
    content: bytes | Path | None = None  #: a file is sent as it is read
    timeout_s: float | None = None  #: None: as the client was made
    may_repeat: bool = False  #: asking twice is as good as once, even if the first was heard
    is_signed: bool = False  #: its URL says who may read it: no key is sent along


@dataclass(frozen=True, slots=True)
class Open:
    """A request whose answer is heard line by line: `Answer` with no body, or `Lost`."""

    call: Call


@dataclass(frozen=True, slots=True)
class NextLine:
    """The next line of what was opened: `str`, None at its end, or `Lost`."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing for a while; hears None."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Give(Generic[T]):
    """One thing for whoever iterates; hears None."""

    value: T


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the service said."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)  #: names in lower case
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Nothing was heard, or not all of it."""

    reason: str
    was_sent: bool = True  #: the service may have heard the request


Heard = Answer | Lost | str | None
Step = Call | Pause
StreamStep = Step | Open | NextLine
#: What ends with a T.
Flow = Generator[Step, Heard, T]
#: What gives Ts one by one.
Source = Generator[StreamStep | Give[T], Heard, None]
