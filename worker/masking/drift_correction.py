"""Correct reused activations by the offset measured at the steps that run in full.

An edit has a prompt that its template was not told, and attention carries that everywhere. By how
much the output of a block differs from the recording changes slowly from step to step, so what was
found at the last step in full corrects the recording at those that follow.
"""

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from worker.masking.blocks.rows import Outputs, PutOutputs, block_of
from worker.masking.quantised import FlatStep, Quantised, RestoredOutputs


def full_steps(steps: range, share: float) -> frozenset[int]:
    """Spread the steps that run in full evenly over those of an edit; its first is one of them."""
    return frozenset(steps[:: round(1 / share)] if share else ())


@dataclass(frozen=True, slots=True, eq=False)
class Drift:
    """What the rows of an edit add to the recording of its template."""

    rows: int
    #: by block, on the device, [R, L, C]; zero for a row of which nothing was learnt
    offsets: dict[str, Tensor] = field(default_factory=dict)

    def make_room(self, step: FlatStep, dtype: torch.dtype) -> None:
        """Have offsets of all that was recorded, before anything is learnt of it."""
        for name in step:
            if name not in self.offsets:
                values = step[name].values
                shape = (self.rows, *values.shape)
                self.offsets[name] = torch.zeros(shape, dtype=dtype, device=values.device)

    def learn(self, template: RestoredOutputs, row: int) -> "Learnt":
        """Take the outputs of a row as they are made, at a step whose recording is given."""
        return Learnt(self, row, template)

    def correct(self, template: RestoredOutputs, row: int) -> Outputs:
        """Move the recording of a step to where a row is."""
        return Corrected(self, row, template) if self.offsets else template


@dataclass(frozen=True, slots=True, eq=False)
class Learnt(MutableMapping[str, Tensor]):
    """Outputs of a row, of which only the differences to its template's are kept."""

    drift: Drift
    row: int
    template: RestoredOutputs

    def __setitem__(self, name: str, output: Tensor) -> None:
        if name not in self.template:
            return
        offsets = self.drift.offsets
        if name not in offsets:
            offsets[name] = output.new_zeros((self.drift.rows, *output.shape))
        self.template.quantised(name).put_offset(output, offsets[name][self.row])

    def __getitem__(self, name: str) -> Tensor:
        return self.template[name] + self.drift.offsets[name][self.row]

    def __delitem__(self, name: str) -> None:
        del self.drift.offsets[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.drift.offsets)

    def __len__(self) -> int:
        return len(self.drift.offsets)


@dataclass(frozen=True, slots=True, eq=False)
class Corrected(PutOutputs):
    """Outputs of a template at one step, with the drift of a row."""

    drift: Drift
    row: int
    template: RestoredOutputs

    def __getitem__(self, name: str) -> Tensor:
        recorded, offsets = self.template[name], self.drift.offsets.get(name)
        return recorded if offsets is None else recorded + offsets[self.row]

    def put(self, name: str, into: Tensor) -> None:
        offsets = self.drift.offsets.get(name)
        if offsets is not None:
            offsets = offsets[self.row : self.row + len(into)]
        self.template.quantised(name).put(into, offsets)

    def is_followed_by(self, other: Outputs) -> bool:
        return (
            isinstance(other, Corrected)
            and other.drift is self.drift
            and other.template is self.template
            and other.row == self.row + 1
        )

    def __contains__(self, name: object) -> bool:
        return name in self.template

    def __iter__(self) -> Iterator[str]:
        return iter(self.template)

    def __len__(self) -> int:
        return len(self.template)


@dataclass(slots=True, eq=False)
class Once(RestoredOutputs):
    """Outputs of one step, awaited and restored once for all rows that ask, block after block."""

    outputs: RestoredOutputs
    _block: str = ""  #: that is running
    _arrived: dict[str, Quantised] = field(default_factory=dict)  #: of that block
    _restored: dict[str, Tensor] = field(default_factory=dict)  #: likewise

    def quantised(self, name: str) -> Quantised:
        self._begin(name)
        if name not in self._arrived:
            self._arrived[name] = self.outputs.quantised(name)
        return self._arrived[name]

    def __getitem__(self, name: str) -> Tensor:
        self._begin(name)
        if name not in self._restored:
            self._restored[name] = self.quantised(name).restored()
        return self._restored[name]

    def _begin(self, name: str) -> None:
        if (block := block_of(name)) != self._block:
            self._block, self._arrived, self._restored = block, {}, {}

    def __contains__(self, name: object) -> bool:
        return name in self.outputs

    def __iter__(self) -> Iterator[str]:
        return iter(self.outputs)

    def __len__(self) -> int:
        return len(self.outputs)
