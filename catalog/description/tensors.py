"""Read what safetensors files hold from their headers alone: tensors, formats, bytes. No torch."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Annotated

import msgspec

from catalog.weights import MAX_HEADER_BYTES
from core.codec import decode
from core.errors import ModelRefused

#: Bits of one number.
_BITS = {"F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "BOOL": 8}
_BITS |= dict.fromkeys(("F16", "BF16", "I16", "U16"), 16)
_BITS |= dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8"), 8)


#: Of one tensor; products of more, or of longer ones, take a second each.
_Side = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class _Entry(msgspec.Struct):
    dtype: str
    shape: Annotated[tuple[_Side, ...], msgspec.Meta(max_length=8)]
    data_offsets: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor of a file."""

    dtype: str  #: such as `F16`
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensors:
    """The tensors of one or more files."""

    by_name: Mapping[str, Tensor]
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> int:
        """Count the numbers in all tensors."""
        return sum(prod(each.shape) for each in self.by_name.values())

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Name the formats of numbers, the one of most numbers first."""
        count: Counter[str] = Counter()
        for each in self.by_name.values():
            count[each.dtype] += prod(each.shape)
        return tuple(name for name, _ in count.most_common())

    @property
    def resident_bytes(self) -> int:
        """Say how many bytes they take in memory; numbers of eight bits are computed in sixteen."""
        return sum(
            prod(each.shape) * max(16, _BITS.get(each.dtype, 32)) // 8
            for each in self.by_name.values()
        )


def read_tensors(files: Iterable[Path]) -> Tensors:
    """Read the headers of some files as one.

    Raises:
        ModelRefused: one is no safetensors file, or is cut short; it names the file.
    """
    by_name: dict[str, Tensor] = {}
    metadata: dict[str, str] = {}
    for file in files:
        own, about = _read(file)
        by_name |= own
        metadata |= about
    return Tensors(by_name=by_name, metadata=metadata)


def _read(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    if not file.is_file():  # who opens a pipe waits for one who writes
        raise _broken(file)
    try:
        size = file.stat().st_size
        with file.open("rb") as data:
            length = int.from_bytes(data.read(8), "little")
            if length > min(size - 8, MAX_HEADER_BYTES):
                raise _broken(file)
            raw = msgspec.json.decode(data.read(length), type=dict[str, msgspec.Raw])
        about = msgspec.json.decode(raw.pop("__metadata__", msgspec.Raw(b"{}")))
        entries = {name: decode(each, _Entry) for name, each in raw.items()}
    except (OSError, RecursionError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _broken(file) from error
    end = max((each.data_offsets[1] for each in entries.values()), default=0)
    if 8 + length + end > size:
        missing = 8 + length + end - size
        raise ModelRefused(
            f"{file.name} is cut short: {missing} bytes are missing; copy or download it again"
        )
    stated = about if isinstance(about, dict) else {}
    told = {name: value for name, value in stated.items() if isinstance(value, str)}
    return {n: Tensor(dtype=e.dtype, shape=e.shape) for n, e in entries.items()}, told


def _broken(file: Path) -> ModelRefused:
    return ModelRefused(
        f"{file.name} is no safetensors file, or is cut short; copy or download it again"
    )
