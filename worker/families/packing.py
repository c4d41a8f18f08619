"""Which images share a call, and how do their conditionings become its rows?"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from worker.families.sample import UNetSample

#: Latent pixels of one call on a CPU. The activations of more do not stay in its caches, and their
#: memory is mapped anew at every layer: the same rows cost a tenth more (`bench.edit`).
CPU_PIXELS = 2**15
#: Batches that are remembered: the calls of one step.
_REMEMBERED = 8


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Conditioning of a batch: the same from step to step until somebody joins or leaves."""

    samples: tuple[UNetSample, ...]
    text: Tensor  #: [B, T, D]
    added: dict[str, Tensor] | None  #: each [B, ...]
    time_cond: Tensor | None  #: [B, E]

    @classmethod
    def of(cls, samples: tuple[UNetSample, ...], batch: int) -> "Packed":
        """Pack the rows of some samples, padded up to `batch`."""
        parts = [sample.conditioning for sample in samples]
        added = {
            name: pad(torch.cat([part.added[name] for part in parts]), batch)
            for name in parts[0].added
        }
        conds = [sample.time_cond for sample in samples if sample.time_cond is not None]
        return cls(
            samples=samples,
            text=pad(torch.cat([part.text for part in parts]), batch),
            added=added or None,
            time_cond=pad(torch.cat(conds), batch) if conds else None,
        )


class Packing:
    """Packs batches, each once while it stays the same."""

    def __init__(self) -> None:
        self.buckets: tuple[int, ...] = ()  #: batch sizes of a compiled model; others are padded
        self._packed: OrderedDict[tuple[int, ...], Packed] = OrderedDict()

    def bucket(self, rows: int) -> int:
        """Choose the batch size for so many rows."""
        return min((size for size in self.buckets if size >= rows), default=rows)

    def pack(self, samples: Sequence[UNetSample]) -> Packed:
        """Pack the rows of some samples, unless that was done for one of the last calls."""
        key = tuple(id(sample) for sample in samples)
        if key not in self._packed:
            batch = self.bucket(sum(sample.rows for sample in samples))
            self._packed[key] = Packed.of(tuple(samples), batch)
        self._packed.move_to_end(key)
        while len(self._packed) > _REMEMBERED:
            self._packed.popitem(last=False)
        return self._packed[key]

    def forget(self) -> None:
        """Free what was packed."""
        self._packed.clear()


def calls(samples: Sequence[UNetSample], device: torch.device) -> list[list[UNetSample]]:
    """Cut a batch into calls: one, unless a CPU is faster with fewer rows."""
    if device.type != "cpu":
        return [list(samples)]
    parts: list[list[UNetSample]] = []
    room = 0
    for sample in samples:
        pixels = sample.rows * sample.latents[0, 0].numel()
        if pixels > room:
            parts.append([])
            room = CPU_PIXELS
        parts[-1].append(sample)
        room -= pixels
    return parts


def pad(rows: Tensor, batch: int) -> Tensor:
    """Repeat the last row up to `batch`; its results are thrown away."""
    missing = batch - len(rows)
    if missing <= 0:
        return rows
    return torch.cat([rows, rows[-1:].expand(missing, *rows.shape[1:])])
