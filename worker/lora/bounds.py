"""How many steps may be made without a LoRA that is on its way? No torch.

As many as its owner has said; else as `atelier profile` has measured for the same file and model;
else none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.lora import LoraUse
from worker.profiled import read_profiled


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a worker reads of a profile."""

    #: model -> SHA-256 of a LoRA's file -> K of 50
    bounds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def of(self, use: LoraUse, model: str) -> int:
        """Tell how much of a schedule may run without a LoRA. Units: K of 50."""
        if use.bound is not None:
            return use.bound
        return self.bounds.get(model, {}).get(use.sha256, 0)


#: Where no profile says anything.
NO_BOUNDS = Bounds()


def read_bounds(path: Path) -> Bounds:
    """Read what is known of LoRAs.

    Raises:
        ConfigurationError: the file is not a profile; the message names it.
    """
    return read_profiled(path, Bounds)
