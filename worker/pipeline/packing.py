"""Pack images into calls, and their conditionings into batch rows."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from worker.lora.mix import Mix
from worker.pipeline.row_batch import RowBatch
from worker.pipeline.sample import UNetSample

#: Latent pixels of one call on a CPU. More rows win nothing there, and those of which activations
#: leave its caches cost up to a tenth more (`bench.edit`); small images gain from 16 rows a call.
CPU_PIXELS = 2**13
#: Batches that are remembered: the calls of one step.
_REMEMBERED = 8


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Packed:
    """Conditioning of a batch: the same from step to step until somebody joins or leaves."""

    samples: tuple[UNetSample, ...]  #: none, if these are some rows of theirs
    text: Tensor  #: [B, T, D]
    added: dict[str, Tensor] | None  #: each [B, ...]
    time_cond: Tensor | None  #: [B, E]
    mixes: tuple[Mix, ...]  #: LoRAs of each row that is not padding
    is_shown: bool = False  #: whether they attend to pictures

    @classmethod
    def of(cls, samples: tuple[UNetSample, ...]) -> "Packed":
        """Pack the rows of some samples."""
        parts = [sample.conditioning for sample in samples]
        added = {name: torch.cat([part.added[name] for part in parts]) for name in parts[0].added}
        conds = [sample.time_cond for sample in samples if sample.time_cond is not None]
        return cls(
            samples=samples,
            text=torch.cat([part.text for part in parts]),
            added=added or None,
            time_cond=torch.cat(conds) if conds else None,
            mixes=tuple(sample.mix for sample in samples for _ in range(sample.rows)),
            is_shown=any(sample.image_prompt for sample in samples),
        )

    def take(self, rows: Sequence[int]) -> "Packed":
        """Give some of the rows, of nobody's samples."""
        mixes = tuple(self.mixes[row] for row in rows)
        return replace(self._each(lambda whole: whole[list(rows)]), mixes=mixes, samples=())

    def padded(self, batch: int) -> "Packed":
        """Pad the rows up to `batch`."""
        return self if len(self.text) == batch else self._each(lambda rows: pad(rows, batch))

    def tensors(self) -> list[Tensor]:
        """Give all that the model is told of the rows, in one order."""
        more = [] if self.time_cond is None else [self.time_cond]
        return [self.text, *(self.added or {}).values(), *more]

    def told(self, tensors: Sequence[Tensor]) -> "Packed":
        """Tell the model these in their place, in the same order."""
        left = iter(tensors)
        return self._each(lambda _: next(left))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Packed":
        """Change each, in that order."""
        text = change(self.text)
        added = {name: change(each) for name, each in (self.added or {}).items()}
        return replace(
            self,
            text=text,
            added=added or None,
            time_cond=change(self.time_cond) if self.time_cond is not None else None,
        )


T = TypeVar("T", "Packed", RowBatch)


class Remembered(OrderedDict[tuple[int, ...], T]):
    """What was made of the last batches, which hold their samples."""

    def of(self, samples: Sequence[UNetSample], make: Callable[[Sequence[UNetSample]], T]) -> T:
        """Give what was made of these samples, or make it."""
        key = tuple(map(id, samples))
        if key not in self:
            self[key] = make(samples)
        self.move_to_end(key)
        while len(self) > _REMEMBERED:
            self.popitem(last=False)
        return self[key]


class Packing:
    """Packs batches, each once while it stays the same."""

    def __init__(self) -> None:
        self.buckets: tuple[int, ...] = ()  #: batch sizes of a compiled model; others are padded
        self._packed: Remembered[Packed] = Remembered()
        self._rows: Remembered[RowBatch] = Remembered()

    def bucket(self, rows: int) -> int:
        """Choose the batch size for so many rows."""
        return min((size for size in self.buckets if size >= rows), default=rows)

    def pack(self, samples: Sequence[UNetSample]) -> Packed:
        """Pack the rows of some samples, unless that was done for one of the last calls."""
        return self._packed.of(samples, self._pack)

    def rows(self, samples: Sequence[UNetSample]) -> RowBatch:
        """Find the rows of some samples, likewise."""
        return self._rows.of(samples, RowBatch)

    def forget(self) -> None:
        """Free what was packed."""
        self._packed.clear()
        self._rows.clear()

    def _pack(self, samples: Sequence[UNetSample]) -> Packed:
        packed = Packed.of(tuple(samples))
        return packed.padded(self.bucket(len(packed.mixes)))


def calls(samples: Sequence[UNetSample], device: torch.device) -> list[list[UNetSample]]:
    """Cut a batch into calls: one, unless a CPU is faster with fewer rows."""
    if device.type != "cpu":
        return [list(samples)]
    parts: list[list[UNetSample]] = []
    room = 0
    for sample in samples:
        pixels = sample.rows * sample.row.pool.pixels
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
