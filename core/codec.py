"""Dataclasses of `core` to JSON and back. Pure.

msgspec finds out about a type when it first reads one, and shows other threads what is half done:
of several that read their first job at once one ends the process (0.22). One does at a time.
"""

from threading import Lock
from typing import TypeVar

import msgspec

T = TypeVar("T")

_encoder = msgspec.json.Encoder()
_decoders: dict[object, msgspec.json.Decoder[object]] = {}
_learning = Lock()


def encode(value: object) -> bytes:
    """Write a dataclass, or plain values, as JSON."""
    return _encoder.encode(value)


def decode(data: bytes | str, type_: type[T]) -> T:
    """Read JSON as `type_`; fields it does not have are ignored, so that versions can mix.

    Raises:
        msgspec.ValidationError: the JSON does not describe a `type_`.
    """
    found = _decoders.get(type_)
    if found is None:
        with _learning:
            found = _decoders[type_] = msgspec.json.Decoder(type_)
    return found.decode(data)  # type: ignore[return-value]
