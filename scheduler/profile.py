"""What does a job cost on each device, and how good is it? Reads one JSON file, else guesses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from core.errors import ConfigurationError
from core.variant import Level, Model

SCHEDULE_STEPS = 50  #: K counts skipped steps of a schedule of this many


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What `atelier profile` measured; whatever is missing is guessed from the model."""

    #: device type -> level -> seconds of the device that one image of default steps takes
    tau: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    #: device type -> model -> seconds to load it
    load: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    #: class -> level -> mean relative quality, in [0, 1]
    quality: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Costs and qualities by level: measured where measured, else the model's own guess."""

    models: Mapping[str, Model]  #: the catalogue, by name
    measured: Measured = Measured()

    def tau_s(self, level: Level, device_type: str) -> float:
        """Seconds of a device that one image of default steps takes."""
        known = self.measured.tau.get(device_type, {}).get(level.name)
        if known is not None:
            return known
        model = self.models[level.model]
        share = 1.0 - level.skipped_steps / SCHEDULE_STEPS
        return model.default_steps * model.step_s * share

    def load_s(self, model: str, device_type: str) -> float:
        """Seconds to load a model on a device."""
        known = self.measured.load.get(device_type, {}).get(model)
        return self.models[model].load_s if known is None else known

    def quality(self, affinity: str, level: Level) -> float:
        """Mean relative quality of prompts of one class at a level, in [0, 1]."""
        known = self.measured.quality.get(affinity, {}).get(level.name)
        return self.models[level.model].quality if known is None else known


def read_measured(path: Path) -> Measured:
    """Read a profile, or an empty one if there is no file.

    Raises:
        ConfigurationError: the file is not a profile; the message names it.
    """
    if not path.exists():
        return Measured()
    try:
        measured = msgspec.json.decode(path.read_bytes(), type=Measured)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    _refuse_nonsense(path, measured)
    return measured


def _refuse_nonsense(path: Path, measured: Measured) -> None:
    seconds = [s for row in (*measured.tau.values(), *measured.load.values()) for s in row.values()]
    shares = [q for row in measured.quality.values() for q in row.values()]
    if any(s <= 0 for s in seconds):
        raise ConfigurationError(f"{path}: times must be positive")
    if any(not 0 <= q <= 1 for q in shares):
        raise ConfigurationError(f"{path}: qualities must lie in [0, 1]")
