"""Read JSON as types of ours, from any thread.

msgspec finds out about a type when it first reads one, and shows other threads what is half done:
of several that read their first answer at once one ends the process (0.22). One does at a time.
"""

from threading import Lock
from typing import TypeVar

import msgspec

T = TypeVar("T")

_decoders: dict[object, msgspec.json.Decoder[object]] = {}
_learning = Lock()


def decode(body: bytes | str, answer: type[T]) -> T:
    """Read JSON; fields that are not known here are left out.

    Raises:
        msgspec.DecodeError: it is no JSON, or describes no such thing.
    """
    found = _decoders.get(answer)
    if found is None:
        with _learning:
            found = _decoders[answer] = msgspec.json.Decoder(answer)
    return found.decode(body)  # type: ignore[return-value]
