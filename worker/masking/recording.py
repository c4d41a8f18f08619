"""Recorded activations of a template, per step: in memory and as one file a step."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import torch
from safetensors.torch import save
from torch import Tensor

from catalog.masking.config import Keep
from core.errors import NewerSchema
from core.job import JobRequest
from core.recipe import Recipe
from core.schema import SCHEMA, Versioned
from worker.masking.blocks.rows import Outputs
from worker.masking.quantised import Blocks, FlatStep, Quantised

#: Names the entry of a file's metadata that lists its blocks, as they ran.
_CHECKSUMS = "crc32"
_SCHEMA = "schema"  #: names the entry that says which form it has

#: Bytes of a header; what asks for more is damaged.
_MAX_HEADER = 2**20


class DamagedRecording(Exception):
    """A file of a recording is missing, cut off, not what was written, or a newer version's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingKey:
    """Whatever the outputs depend on."""

    weights: str  #: fingerprint of the model
    recipe: Recipe
    keeps: Keep = Keep.OUTPUTS  #: as its edits ask for it

    @classmethod
    def of(
        cls,
        request: JobRequest,
        seed: int,
        weights: str,
        *,
        is_guided: bool,
        keeps: Keep = Keep.OUTPUTS,
    ) -> "RecordingKey":
        """Say what the edits of a template share that have the same noise and schedule."""
        recipe = Recipe.of(request, seed, is_guided=is_guided)
        return cls(weights=weights, recipe=recipe, keeps=keeps)

    @property
    def digest(self) -> str:
        """Name the recording in any store; begins with the name of its recipe."""
        rest = hashlib.sha256(f"{self.weights} {self.keeps}".encode()).hexdigest()
        return self.recipe.digest[:32] + rest[:32]


@dataclass(slots=True, kw_only=True, eq=False, weakref_slot=True)
class Recording:
    """The outputs of one template, each step in memory, in a file, or both."""

    steps: dict[int, FlatStep] = field(default_factory=dict)
    files: dict[int, Path] = field(default_factory=dict)
    tier: str = "memory"  #: where it was found: memory, disk or store
    expected_bytes: int = 0  #: of one in progress, once it is whole; 0: nobody knows yet

    def keep(self, position: int, outputs: Outputs) -> None:
        """Take in what the blocks made at one step."""
        made = {name: Quantised.of(output) for name, output in outputs.items()}
        self.steps[position] = FlatStep.of(made)

    def covers(self, steps: range) -> bool:
        """Tell whether each of some steps was recorded, and is here yet."""
        return all(at in self.steps or self._has_file(at) for at in steps)

    def _has_file(self, position: int) -> bool:
        """Look for a file: others of this folder may have had no room for it."""
        path = self.files.get(position)
        return path is not None and path.exists()

    @property
    def fingerprint(self) -> str:
        """Tell it from others by one block of its last step; empty: that cannot be read."""
        last = max((*self.steps, *self.files), default=0)
        if blocks := self.steps.get(last):
            return blocks[list(blocks)[-1]].checksum
        with suppress(DamagedRecording, KeyError), StepFile(self.files[last]) as file:
            return file.last_checksum
        return ""

    @property
    def num_bytes(self) -> int:
        """Bytes in memory."""
        return sum(step.num_bytes for step in self.steps.values())


def pack(blocks: Blocks) -> bytes:
    """Write one step as a safetensors file with a checksum for each block."""
    tensors = {}
    for name, each in blocks.items():
        tensors[f"{name}/values"], tensors[f"{name}/scales"] = each.values, each.scales
    # One value, as its own entries come in any order, and blocks are loaded in theirs.
    checksums = json.dumps({name: each.checksum for name, each in blocks.items()})
    metadata = {_CHECKSUMS: checksums, _SCHEMA: str(SCHEMA.stamp(Versioned.RECORDING))}
    data: bytes = save(tensors, metadata=metadata)
    return data


class StepFile:
    """The file of one step, open for reading; for `with`.

    Read by range and not mapped: a file that is cut off under a mapping ends the process.
    """

    def __init__(self, path: Path) -> None:
        """Open a file and read its header. Raises: DamagedRecording."""
        self._path = path
        with self._damage():
            self._file = path.open("rb", buffering=0)
        try:
            with self._damage():
                size = int.from_bytes(self._file.read(8), "little")
                self._header = json.loads(self._file.read(min(size, _MAX_HEADER)))
                metadata: Mapping[str, str] = self._header["__metadata__"]
                SCHEMA.check(Versioned.RECORDING, int(metadata.get(_SCHEMA, 1)), path.parent.name)
                self._checksums: dict[str, str] = json.loads(metadata[_CHECKSUMS])
                self._data = 8 + size
        except DamagedRecording:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Tokens and channels by block, in the order they ran."""
        return {name: tuple(self._header[f"{name}/values"]["shape"]) for name in self._checksums}

    @property
    def last_checksum(self) -> str:
        """Give the checksum of the block that ran last."""
        return next(reversed(self._checksums.values()), "")

    def read(self, name: str) -> Quantised:
        """Read one block. Raises: DamagedRecording."""
        with self._damage():
            found = Quantised(
                values=self._read(f"{name}/values", torch.int8),
                scales=self._read(f"{name}/scales", torch.float32),
            )
            if found.checksum != self._checksums[name]:
                raise DamagedRecording(f"{self._path}: block {name} is not what was written")
        return found

    def _read(self, name: str, dtype: torch.dtype) -> Tensor:
        begin, end = self._header[name]["data_offsets"]
        self._file.seek(self._data + begin)
        data = bytearray(self._file.read(end - begin))
        return torch.frombuffer(data, dtype=dtype).reshape(self._header[name]["shape"])

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, KeyError, RuntimeError, NewerSchema) as error:
            raise DamagedRecording(f"{self._path}: {error!r}") from error


def read_blocks(path: Path, names: Sequence[str] | None = None) -> Iterator[tuple[str, Quantised]]:
    """Read the blocks of one step in the order asked for; without names all, in any order.

    Raises: DamagedRecording.
    """
    with StepFile(path) as file:
        for name in file.sizes if names is None else names:
            yield name, file.read(name)
