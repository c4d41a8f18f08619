"""Read and check the header of a safetensors file. No torch.

The header alone is read: eight bytes of length, then JSON (https://github.com/huggingface/safetensors).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import BinaryIO

import msgspec

from core.codec import decode
from core.errors import WeightsRefused
from core.text import shorten

#: Bytes of a header that are read at most: of a LoRA for SDXL it has less than one in ten.
MAX_HEADER_BYTES = 4 * 2**20
#: Colons of a header, those in its texts too: each tensor has four, and a decoder makes objects of
#: all that they stand in before anything can be counted.
MAX_COLONS = 200_000
#: Tensors of a file: a LoRA for SDXL has some 2,400, its UNet 1,700.
MAX_TENSORS = 10_000
MAX_NAME = 256  #: characters of the name of a tensor
MAX_DIMENSIONS = 8
MAX_SIDE = 2**32  #: of a tensor, exclusive
#: As much of a file as has all of its header.
HEAD_BYTES = 8 + MAX_HEADER_BYTES

#: Bytes of one number.
_WIDTHS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorEntry:
    """One tensor of a file."""

    dtype: str  #: such as `F16`
    shape: tuple[int, ...]
    begin: int  #: its first byte, from the start of the file
    end: int  #: the byte after its last


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a file holds."""

    tensors: Mapping[str, TensorEntry]
    metadata: Mapping[str, str]


class _Described(msgspec.Struct):
    """A tensor as headers describe it."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]  #: from the end of the header


def read_header(file: BinaryIO, size: int, *, is_whole: bool = True) -> Header:
    """Read and check the header of a file of `size` bytes, or of its beginning.

    Raises: WeightsRefused if it is no safetensors file, or says what cannot be.
    """
    length = int.from_bytes(file.read(8), "little")
    if size < HEAD_BYTES and length > size - 8:
        raise WeightsRefused("not a safetensors file, or cut short")
    if length > MAX_HEADER_BYTES:
        raise WeightsRefused(f"a header of {length} bytes; at most {MAX_HEADER_BYTES} are read")
    data = file.read(length)
    _check_count("colons", len(data) - len(data.translate(None, b":")), MAX_COLONS)
    try:
        described = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        metadata = msgspec.json.decode(
            described.pop("__metadata__", msgspec.Raw(b"{}")), type=dict[str, str]
        )
        _check_count("tensors", len(described), MAX_TENSORS)
        tensors = {
            name: _entry(name, decode(raw, _Described), 8 + length)
            for name, raw in described.items()
        }
    except RecursionError as error:
        raise WeightsRefused("a header nested more deeply than any of safetensors") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WeightsRefused(f"a header that is not safetensors: {error}") from error
    _check_cover(tensors, 8 + length, size if is_whole else None)
    return Header(tensors=tensors, metadata=metadata)


def _check_count(what: str, count: int, most: int) -> None:
    if count > most:
        raise WeightsRefused(f"a header with {count} {what}; at most {most} are read")


def _entry(name: str, described: _Described, start: int) -> TensorEntry:
    called = shorten(name)
    if len(name) > MAX_NAME:
        raise WeightsRefused(
            f"{called}: the name of a tensor may have at most {MAX_NAME} characters"
        )
    begin, end = described.data_offsets
    width = _WIDTHS.get(described.dtype)
    if width is None:
        raise WeightsRefused(f"{called}: unknown number format {shorten(described.dtype)!r}")
    _check_shape(called, described.shape)
    if begin < 0:
        raise WeightsRefused(f"{called}: negative numbers in its place")
    if end - begin != width * prod(described.shape):
        raise WeightsRefused(f"{called}: its bytes are not those of its shape")
    return TensorEntry(
        dtype=described.dtype, shape=described.shape, begin=start + begin, end=start + end
    )


def _check_shape(called: str, shape: tuple[int, ...]) -> None:
    """Bound a shape before anything is multiplied: large integers are slow to multiply."""
    if len(shape) > MAX_DIMENSIONS:
        raise WeightsRefused(
            f"{called}: {len(shape)} dimensions; at most {MAX_DIMENSIONS} are read"
        )
    if min(shape, default=0) < 0:
        raise WeightsRefused(f"{called}: negative numbers in its shape")
    if max(shape, default=0) >= MAX_SIDE:
        raise WeightsRefused(f"{called}: a side of its shape is not below {MAX_SIDE}")


def _check_cover(tensors: Mapping[str, TensorEntry], start: int, size: int | None) -> None:
    """Let no byte belong to two tensors, or to none."""
    at = start
    for entry in sorted(tensors.values(), key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != at:
            raise WeightsRefused("tensors that overlap, or bytes between them that belong to none")
        at = entry.end
    if size not in (None, at):
        raise WeightsRefused(f"{size} bytes, where the header speaks of {at}")
