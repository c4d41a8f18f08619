"""Steps that may run before a LoRA is loaded: its owner's value, else profiled. No torch.

The owner's value, else what `atelier profile` has measured for the same file and model, else none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from catalog.profiled import read_profiled
from core.uploads.lora import AppliedLora


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a worker reads of a profile."""

    #: model -> SHA-256 of a LoRA's file -> K of 50
    bounds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def of(self, use: AppliedLora, model: str) -> int:
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
