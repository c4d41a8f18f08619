"""Dataclasses of `core` to JSON and back. Pure.

msgspec finds out about a type when it first reads one, and shows other threads what is half done:
of several that read their first job at once one ends the process (0.22). One does at a time.
"""

from collections.abc import Hashable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from threading import Lock
from typing import TypeVar, cast

import msgspec

T = TypeVar("T")

_encoder = msgspec.json.Encoder()
_decoders: dict[object, msgspec.json.Decoder[object]] = {}
_learning = Lock()


def encode(value: object) -> bytes:
    """Write a dataclass, or plain values, as JSON."""
    return _encoder.encode(value)


def encode_short(value: object) -> bytes:
    """Write as `encode` does, without the fields of dataclasses that have their default.

    `decode` fills those in. So a default of what is kept so never changes: another one is a field
    of another name.
    """
    return _encoder.encode(_shortened(value))


def _shortened(value: object) -> object:
    if isinstance(value, tuple):
        return [_shortened(each) for each in value]
    if not (known := _defaults(cast(Hashable, type(value)))):
        return value
    return {
        name: _shortened(own) for name, default in known if (own := getattr(value, name)) != default
    }


@cache
def _defaults(type_: Hashable) -> tuple[tuple[str, object], ...]:
    """Name the fields of a dataclass, each with its default, or `MISSING`; none of other types."""
    if not isinstance(type_, type) or not is_dataclass(type_):
        return ()
    made = ((each, each.default_factory) for each in fields(type_))
    return tuple((each.name, each.default if make is MISSING else make()) for each, make in made)


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
