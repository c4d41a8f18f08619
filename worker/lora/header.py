"""What does a safetensors file say that it holds, and can that be true? No torch.

The header alone is read: eight bytes of length, then JSON (https://github.com/huggingface/safetensors).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import BinaryIO

import msgspec

from core.errors import LoraRefused

#: Bytes of a header that are read at most: of a LoRA for SDXL it has less than one in ten.
MAX_HEADER_BYTES = 4 * 2**20
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
class Entry:
    """One tensor of a file."""

    dtype: str  #: such as `F16`
    shape: tuple[int, ...]
    begin: int  #: its first byte, from the start of the file
    end: int  #: the byte after its last


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a file holds."""

    tensors: Mapping[str, Entry]
    metadata: Mapping[str, str]


class _Described(msgspec.Struct):
    """A tensor as headers describe it."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]  #: from the end of the header


def read_header(file: BinaryIO, size: int, *, is_whole: bool = True) -> Header:
    """Read and check the header of a file of `size` bytes, or of its beginning.

    Raises: LoraRefused if it is no safetensors file, or says what cannot be.
    """
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > size - 8:
        raise LoraRefused("not a safetensors file, or cut short")
    if length > MAX_HEADER_BYTES:
        raise LoraRefused(f"a header of {length} bytes; at most {MAX_HEADER_BYTES} are read")
    try:
        described = msgspec.json.decode(file.read(length), type=dict[str, msgspec.Raw])
        metadata = msgspec.json.decode(
            described.pop("__metadata__", msgspec.Raw(b"{}")), type=dict[str, str]
        )
        tensors = {
            name: _entry(name, msgspec.json.decode(raw, type=_Described), 8 + length)
            for name, raw in described.items()
        }
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LoraRefused(f"a header that is not safetensors: {error}") from error
    _check_cover(tensors, 8 + length, size if is_whole else None)
    return Header(tensors=tensors, metadata=metadata)


def _entry(name: str, described: _Described, start: int) -> Entry:
    begin, end = described.data_offsets
    width = _WIDTHS.get(described.dtype)
    if width is None:
        raise LoraRefused(f"{name}: unknown number format {described.dtype!r}")
    if min((*described.shape, begin), default=0) < 0:
        raise LoraRefused(f"{name}: negative numbers in its shape or place")
    if end - begin != width * prod(described.shape):
        raise LoraRefused(f"{name}: its bytes are not those of its shape")
    return Entry(dtype=described.dtype, shape=described.shape, begin=start + begin, end=start + end)


def _check_cover(tensors: Mapping[str, Entry], start: int, size: int | None) -> None:
    """Let no byte belong to two tensors, or to none."""
    at = start
    for entry in sorted(tensors.values(), key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != at:
            raise LoraRefused("tensors that overlap, or bytes between them that belong to none")
        at = entry.end
    if size not in (None, at):
        raise LoraRefused(f"{size} bytes, where the header speaks of {at}")
