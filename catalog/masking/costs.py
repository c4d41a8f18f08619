"""Cost model of masked blocks: linear fits of measured latency.

InstGenIE (sections 4.2 and 4.4) fits latencies to operations and to bytes; so do we.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catalog.masking.plan import BlockTimes
from catalog.profiled import read_profiled

#: Lines that explain less of what was measured than this (R2) plan nothing.
TRUSTED = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShape:
    """What the cost of a block depends on."""

    tokens: int  #: of one row
    channels: int
    weights: int  #: parameters that every computed token is multiplied with
    keys: int = 0  #: tensors of keys and values that are kept in place of its output


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """Seconds as a sum of parts: a start, and so much for each unit of work."""

    start_s: float
    per_unit_s: tuple[float, ...]
    r2: float  #: share of the variance that it explains

    def seconds(self, *work: float) -> float:
        """Expect seconds; never less than none."""
        parts = (each * cost for each, cost in zip(work, self.per_unit_s, strict=True))
        return max(0.0, self.start_s + sum(parts))

    @classmethod
    def fit(cls, work: Sequence[Sequence[float]], seconds: Sequence[float]) -> "CostLine":
        """Fit by least squares. Shapes: work [N, units], seconds [N]."""
        units: NDArray[np.float64] = np.asarray(work, np.float64)
        taken: NDArray[np.float64] = np.asarray(seconds, np.float64)
        scale = units.max(axis=0).clip(min=1.0)
        table = np.column_stack([np.ones(len(units)), units / scale])
        found = np.linalg.lstsq(table, taken, rcond=None)[0]
        missed = float(((table @ found - taken) ** 2).sum())
        spread = float(((taken - taken.mean()) ** 2).sum())
        return cls(
            start_s=float(found[0]),
            per_unit_s=tuple((found[1:] / scale).tolist()),
            r2=1 - missed / spread if spread else 1.0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskingCosts:
    """What blocks and loads of one model take on one device."""

    compute: CostLine  #: over operations of linear layers, and of attention
    load: CostLine  #: over bytes, from a file to the device
    copy: CostLine  #: over bytes, from host memory to the device
    rest_s: float = 0.0  #: of one row of a step, outside of blocks, for each block
    blocks: tuple[BlockShape, ...] = ()  #: in the order they run, at the model's default size

    @property
    def is_trusted(self) -> bool:
        """Whether what blocks take may be computed from it."""
        return self.compute.r2 >= TRUSTED

    def times(self, shape: BlockShape, masked: int, rows: int, *, is_in_memory: bool) -> BlockTimes:
        """Expect what a block takes that computes `masked` tokens of each row, or all of them."""
        size = shape.tokens * (shape.channels + 4) * max(1, shape.keys)
        return BlockTimes(
            before=rows * self.rest_s,
            full=self.compute.seconds(*operations(shape, shape.tokens, rows)),
            cached=self.compute.seconds(*operations(shape, masked, rows)),
            load=(self.copy if is_in_memory else self.load).seconds(size),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _MaskingProfile:
    """What a worker reads of a profile: device type -> model -> costs."""

    masking: Mapping[str, Mapping[str, MaskingCosts]] = field(default_factory=dict)


def read_costs(path: Path, device_type: str) -> Mapping[str, MaskingCosts]:
    """Read what `atelier profile` found out about each model on one type of device.

    Raises:
        ConfigurationError: the file is not a profile; the message names it.
    """
    return read_profiled(path, _MaskingProfile).masking.get(device_type, {})


def operations(shape: BlockShape, computed: int, rows: int) -> tuple[float, float]:
    """Count what a block does for `rows` of which it computes so many tokens each.

    Keys and values are those of all tokens (InstGenIE, table 1 but for them), unless they are kept.
    Units: operations of linear layers, and of attention among the picture's tokens.
    """
    keys_and_values = 2 * shape.channels**2
    per_token = shape.weights - keys_and_values
    projected = computed if shape.keys else shape.tokens
    linear = 2 * rows * (projected * keys_and_values + computed * per_token)
    attention = 4 * rows * computed * shape.tokens * shape.channels
    return float(linear), float(attention)
