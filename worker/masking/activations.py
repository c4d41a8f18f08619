"""What did the blocks make of a template, step by step? Kept in host memory within a budget."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from worker.masking.rows import Outputs

#: Template, model, schedule, size, seed and prompt: whatever the outputs depend on.
Key = Hashable


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

    def on(self, device: torch.device) -> Tensor:
        """Give the output back, single precision. Shapes: [L, C]."""
        return self.values.to(device).float() * self.scales.to(device)

    @property
    def num_bytes(self) -> int:
        """Bytes in memory."""
        return self.values.numel() + 4 * self.scales.numel()


@dataclass(frozen=True, slots=True, eq=False)
class Step(Mapping[str, Tensor]):
    """The outputs of one step, put on the device as they are asked for."""

    blocks: Mapping[str, Quantised]
    device: torch.device

    def __getitem__(self, name: str) -> Tensor:
        return self.blocks[name].on(self.device)

    def __iter__(self) -> Iterator[str]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    def __contains__(self, name: object) -> bool:
        return name in self.blocks


@dataclass(slots=True, kw_only=True, eq=False)
class Recording:
    """The outputs of one template at some steps of its schedule."""

    steps: dict[int, dict[str, Quantised]] = field(default_factory=dict)

    def keep(self, position: int, outputs: Outputs) -> None:
        """Take in what the blocks made at one step."""
        self.steps[position] = {name: Quantised.of(output) for name, output in outputs.items()}

    def at(self, position: int, device: torch.device) -> Outputs:
        """Give the outputs of one step; none where the step was not recorded."""
        return Step(self.steps.get(position, {}), device)

    @property
    def num_bytes(self) -> int:
        """Bytes in memory."""
        return sum(each.num_bytes for step in self.steps.values() for each in step.values())


class Activations:
    """The recordings of one worker, the least recently used one leaving first.

    Belongs to the engine's thread.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.num_bytes = 0
        self._kept: OrderedDict[Key, tuple[Recording, int]] = OrderedDict()

    def find(self, key: Key) -> Recording | None:
        """Look a recording up."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def add(self, key: Key, recording: Recording) -> None:
        """Keep a finished recording, unless it alone is over the budget."""
        size = recording.num_bytes
        if size > self.budget_bytes:
            return
        self._remove(key)
        self._kept[key] = recording, size
        self.num_bytes += size
        while self.num_bytes > self.budget_bytes:
            self._remove(next(iter(self._kept)))

    def _remove(self, key: Key) -> None:
        if key in self._kept:
            self.num_bytes -= self._kept.pop(key)[1]
