"""Correct reused activations by the offset measured at the steps that run in full.

An edit has a prompt that its template was not told, and attention carries that everywhere. By how
much the output of a block differs from the recording changes slowly from step to step, so what was
found at the last step in full corrects the recording at those that follow.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field

from torch import Tensor

from worker.masking.blocks.rows import Outputs, PutOutputs, block_of
from worker.masking.recording import Quantised, RestoredOutputs


def full_steps(steps: range, share: float) -> frozenset[int]:
    """Spread the steps that run in full evenly over those of an edit; its first is one of them."""
    return frozenset(steps[:: round(1 / share)] if share else ())


@dataclass(frozen=True, slots=True, eq=False)
class Drift:
    """What one row of an edit adds to the recording of its template."""

    offsets: dict[str, Tensor] = field(default_factory=dict)  #: [L, C] by block, on the device

    def learn(self, template: RestoredOutputs) -> "Learnt":
        """Take the outputs of a step in full, whose recording is given, as they are made."""
        return Learnt(self.offsets, template)

    def correct(self, template: RestoredOutputs) -> Outputs:
        """Move the recording of a step to where this row is."""
        return Corrected(self.offsets, template) if self.offsets else template


@dataclass(frozen=True, slots=True, eq=False)
class Learnt(MutableMapping[str, Tensor]):
    """Outputs of a row, of which only the differences to its template's are kept."""

    offsets: dict[str, Tensor]
    template: RestoredOutputs

    def __setitem__(self, name: str, output: Tensor) -> None:
        if name in self.template:
            self.offsets[name] = self.template.quantised(name).taken_from(output)

    def __getitem__(self, name: str) -> Tensor:
        return self.template[name] + self.offsets[name]

    def __delitem__(self, name: str) -> None:
        del self.offsets[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass(frozen=True, slots=True, eq=False)
class Corrected(PutOutputs):
    """Outputs of a template at one step, with the drift of a row."""

    offsets: Mapping[str, Tensor]
    template: RestoredOutputs

    def __getitem__(self, name: str) -> Tensor:
        recorded, offset = self.template[name], self.offsets.get(name)
        return recorded if offset is None else recorded + offset

    def put(self, name: str, into: Tensor) -> None:
        self.template.quantised(name).put(into, self.offsets.get(name))

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
