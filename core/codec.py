"""Dataclasses of `core` to JSON and back. Pure."""

from typing import TypeVar

import msgspec

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


def encode(value: object) -> bytes:
    """Write a dataclass, or plain values, as JSON."""
    return _encoder.encode(value)


def decode(data: bytes | str, type_: type[T]) -> T:
    """Read JSON as `type_`; fields it does not have are ignored, so that versions can mix.

    Raises:
        msgspec.ValidationError: the JSON does not describe a `type_`.
    """
    return msgspec.json.decode(data, type=type_)
