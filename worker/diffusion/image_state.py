"""Where one image stands on its way: what is written down for whoever goes on with it. No torch."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import msgspec

from core.errors import EngineError, NewerSchema
from core.levels.approximation import EXACT
from core.schema import SCHEMA, Versioned

#: By index, of a job that nobody has begun.
NO_STATES: "Mapping[int, ImageState]" = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageState:
    """One image after a step."""

    version: int = 1  #: of the form that this is written in
    identity: str  #: of whatever decides what is made: request, level, weights, precision
    step: int  #: taken of this pass
    steps: int  #: of this pass
    reached: str = EXACT.code  #: what is left out of it, as names of levels say it
    is_second: bool = False  #: whether it is in its second pass
    checksum: int = 0  #: CRC-32 of the payload
    payload: bytes = b""  #: by the runner of its model, which alone reads it

    def write(self) -> bytes:
        """Write it down."""
        return msgspec.msgpack.encode(replace(self, version=SCHEMA.stamp(Versioned.STATE)))


#: Made here: threads that make one of the same type at once end the process (`core/codec`).
_decoder = msgspec.msgpack.Decoder(ImageState)


def read_state(data: bytes, identity: str) -> ImageState:
    """Read where an image of this identity stood.

    Raises: EngineError if it is damaged, or of another image, recipe or model, or of a newer
        version.
    """
    try:
        state = _decoder.decode(data)
        SCHEMA.check(Versioned.STATE, state.version, "an image")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EngineError(f"the state of an image is damaged: {error}") from error
    except NewerSchema as error:
        raise EngineError(str(error)) from error
    if state.identity != identity:
        raise EngineError("the state is of an image that was made otherwise")
    if zlib.crc32(state.payload) != state.checksum or not 0 < state.step <= state.steps:
        raise EngineError("the state of an image is damaged: its checksum is another")
    return state
