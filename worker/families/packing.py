"""How do the conditionings of many images become the rows of one call?"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from worker.families.sample import UNetSample


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

    def is_of(self, samples: Sequence[UNetSample]) -> bool:
        """Tell whether these are the samples, in this order."""
        return len(self.samples) == len(samples) and all(
            mine is theirs for mine, theirs in zip(self.samples, samples, strict=True)
        )


class Packing:
    """Packs batches, each once while it stays the same."""

    def __init__(self) -> None:
        self.buckets: tuple[int, ...] = ()  #: batch sizes of a compiled model; others are padded
        self._last: Packed | None = None

    def bucket(self, rows: int) -> int:
        """Choose the batch size for so many rows."""
        return min((size for size in self.buckets if size >= rows), default=rows)

    def pack(self, samples: Sequence[UNetSample]) -> Packed:
        """Pack the rows of some samples, unless they were the last to be packed."""
        if self._last is None or not self._last.is_of(samples):
            batch = self.bucket(sum(sample.rows for sample in samples))
            self._last = Packed.of(tuple(samples), batch)
        return self._last

    def forget(self) -> None:
        """Free what was packed last."""
        self._last = None


def pad(rows: Tensor, batch: int) -> Tensor:
    """Repeat the last row up to `batch`; its results are thrown away."""
    missing = batch - len(rows)
    if missing <= 0:
        return rows
    return torch.cat([rows, rows[-1:].expand(missing, *rows.shape[1:])])
