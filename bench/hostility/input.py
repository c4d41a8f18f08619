"""Define one hostile input, and what a request is written like."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

Pieces = Iterable[bytes]

JSON = "Content-Type: application/json"
FILE = "Content-Type: application/octet-stream"
PNG = "Content-Type: image/png"
END = b"Connection: close\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a hostile client has of its own."""

    key: str  #: to the api
    job: str  #: that never ends
    image: str  #: path and query of a file that it keeps
    operator: str = ""  #: a key that may operate
    theirs: str = ""  #: a job of another tenant
    folder: Path = Path()  #: with the folders of `hostile_models`

    @property
    def authorization(self) -> str:
        return f"Authorization: Bearer {self.key}"

    def as_operator(self) -> "Known":
        """Send with the operator's key."""
        return replace(self, key=self.operator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What is sent, how often, and what its refusal must say."""

    name: str
    kind: str  #: what it is of, for the table
    pieces: "Write"
    says: str = ""  #: the limit, in every refusal
    is_refused: bool = False  #: it must not be taken; otherwise it may
    count: int = 1  #: connections at the same time
    addresses: int = 1  #: that they come from
    hold_s: float | None = None  #: seconds until the client leaves; None: it waits for its answer
    pause_s: float = 0.0  #: between pieces
    is_cut: bool = False  #: its connection may end without an answer
    is_slow: bool = False  #: left out of a quick run


Write = Callable[[Known], Pieces]


def head(
    known: Known, method: str, target: str, *headers: str, has_key: bool = True
) -> list[bytes]:
    """Write the head of a request but for its end."""
    own = [known.authorization] if has_key else []
    lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", *own, *headers]
    return ["\r\n".join(lines).encode() + b"\r\n"]


def post(known: Known, target: str, body: bytes, kind: str = JSON, *headers: str) -> list[bytes]:
    """Write a whole request with a body."""
    length = f"Content-Length: {len(body)}"
    return [*head(known, "POST", target, kind, length, *headers), END, body]


def patch(known: Known, target: str, body: bytes, *headers: str) -> list[bytes]:
    """Write a whole request that changes something."""
    length = f"Content-Length: {len(body)}"
    return [*head(known, "PATCH", target, JSON, length, *headers), END, body]


def get(known: Known, target: str, *headers: str) -> list[bytes]:
    """Write a whole request without one."""
    return [*head(known, "GET", target, *headers), END]


def times(piece: bytes, count: int) -> Pieces:
    """Repeat a piece without holding all of it."""
    return (piece for _ in range(count))
