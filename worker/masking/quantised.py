"""Outputs of blocks as they are kept: int8, with a scale for each token."""

import zlib
from abc import abstractmethod
from collections.abc import Container, Hashable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from worker.diffusion.kernels.kernels import captured_kernels
from worker.masking.blocks.rows import PutOutputs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quantised:
    """One output, int8 a token: SSIM of images is unchanged to three digits."""

    values: Tensor  #: int8, [L, C]
    scales: Tensor  #: float32, [L, 1]

    @classmethod
    def of(cls, output: Tensor) -> "Quantised":
        """Quantise on the output's device, then move to the host. Shapes: [L, C]."""
        output = output.float()
        scales = output.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127
        values = (output / scales).round().to(torch.int8)
        return cls(values=values.cpu(), scales=scales.cpu())

    def to(self, device: torch.device) -> "Quantised":
        """Copy to a device; from pinned memory the host does not wait."""
        values, scales = (t.to(device, non_blocking=True) for t in (self.values, self.scales))
        return Quantised(values=values, scales=scales)

    def pinned(self) -> "Quantised":
        """Move to memory that a device can copy from by itself."""
        return Quantised(values=self.values.pin_memory(), scales=self.scales.pin_memory())

    def restored(self) -> Tensor:
        """Give the output back where it is, single precision. Shapes: [L, C]."""
        return self.values * self.scales

    def put(self, into: Tensor, offset: Tensor | None = None) -> None:
        """Write the output, moved by offsets, in one pass. Shapes: [L, C], or [R, L, C] each."""
        if (kernels := captured_kernels(into.device)) is not None:
            kernels.scaled_sum(offset, self.values, self.scales, into)
        elif offset is None:
            torch.mul(self.values.expand_as(into), self.scales, out=into)
        else:
            torch.addcmul(offset, self.values, self.scales, out=into)

    def put_offset(self, other: Tensor, into: Tensor) -> None:
        """Write by how much another output differs. Shapes: [L, C] each."""
        if (kernels := captured_kernels(into.device)) is not None:
            kernels.scaled_sum(other.contiguous(), self.values, self.scales, into, sign=-1.0)
        else:
            torch.addcmul(other, self.values, self.scales, value=-1, out=into)

    @property
    def num_bytes(self) -> int:
        """Bytes in memory."""
        return self.values.numel() + 4 * self.scales.numel()

    @property
    def checksum(self) -> str:
        """CRC-32 of the bytes, hex."""
        crc = zlib.crc32(self.values.numpy().data)
        return f"{zlib.crc32(self.scales.numpy().data, crc):08x}"


class RestoredOutputs(PutOutputs):
    """Outputs that are restored as they are asked for."""

    @abstractmethod
    def quantised(self, name: str) -> Quantised:
        """Give one output as it was recorded, where it is wanted. Raises: KeyError."""

    def __getitem__(self, name: str) -> Tensor:
        return self.quantised(name).restored()

    def put(self, name: str, into: Tensor) -> None:
        self.quantised(name).put(into)

    def whole(self) -> "FlatStep | None":
        """Give all of it where it is wanted; None if it comes block by block."""
        return None


#: The outputs of one step, by block, in the order the blocks run.
Blocks = Mapping[str, Quantised]


class FlatStep(Mapping[str, Quantised]):
    """The outputs of one step in two tensors, which two copies bring to a device."""

    def __init__(self, numbers: Tensor, scales: Tensor, places: Mapping[str, "_Place"]) -> None:
        """Take the values of all blocks, one after another, and their scales likewise.

        Shapes: numbers [sum of L C], scales [sum of L].
        """
        self.numbers = numbers
        self.scales = scales
        self._places = places

    @classmethod
    def of(cls, blocks: Blocks) -> "FlatStep":
        """Put blocks one after another."""
        places, begin, token = {}, 0, 0
        for name, block in blocks.items():
            length, channels = block.values.shape
            places[name] = _Place(begin=begin, token=token, length=length, channels=channels)
            begin, token = begin + length * channels, token + length
        flat = cls(torch.empty(begin, dtype=torch.int8), torch.empty(token), places)
        for name, own in flat.items():
            own.values.copy_(blocks[name].values)
            own.scales.copy_(blocks[name].scales)
        return flat

    def only(self, names: Container[str]) -> "FlatStep":
        """Leave blocks out, though not of what is copied."""
        places = {name: at for name, at in self._places.items() if name in names}
        return FlatStep(self.numbers, self.scales, places)

    def on(self, numbers: Tensor, scales: Tensor) -> "FlatStep":
        """Read the same blocks from other tensors."""
        return FlatStep(numbers, scales, self._places)

    def pin(self) -> None:
        """Move to memory that a device can copy from by itself, for good."""
        if not self.numbers.is_pinned():
            self.numbers, self.scales = self.numbers.pin_memory(), self.scales.pin_memory()

    def to(self, device: torch.device) -> "FlatStep":
        """Copy to a device; from pinned memory the host does not wait."""
        there = [each.to(device, non_blocking=True) for each in (self.numbers, self.scales)]
        return self.on(*there)

    @property
    def layout(self) -> Hashable:
        """Say which blocks it has, and where."""
        return tuple(self._places.items())

    @property
    def num_bytes(self) -> int:
        """Bytes in memory."""
        return self.numbers.numel() + 4 * self.scales.numel()

    def __getitem__(self, name: str) -> Quantised:
        at = self._places[name]
        values = self.numbers[at.begin : at.begin + at.length * at.channels]
        return Quantised(
            values=values.view(at.length, at.channels),
            scales=self.scales[at.token : at.token + at.length, None],
        )

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a block is in a step."""

    begin: int  #: among all values
    token: int  #: among all scales
    length: int
    channels: int
