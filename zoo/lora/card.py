"""Model card of a LoRA file: origin, recipe, figures."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from zoo.lora.styles import Form


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How far a LoRA at scale 1 moves the measure of its style."""

    #: Pictures measured, as many with it as without.
    pictures: int
    #: Denoising steps of each.
    steps: int
    #: Classifier-free guidance of each.
    guidance: float
    #: Mean measure of the base model's pictures.
    base: float
    #: Their standard deviation.
    base_sd: float
    #: Mean measure of the pictures with the LoRA.
    styled: float
    #: Mean measure of true pictures in the style.
    true: float
    #: (styled - base) / base_sd.
    shift: float
    #: Layers that stock diffusers adapts after loading the file; none was dropped.
    layers: int
    #: Whether a scale of 0 gives the base model's pictures, every pixel.
    is_neutral_at_zero: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """All that is known of a LoRA file; lies beside it as NAME.json."""

    #: Name of the style and of the file.
    name: str
    #: How the file names its weights.
    form: Form
    #: Word that a prompt needs; None, as the style is always on.
    trigger: str | None
    #: Name of the model it is for.
    base: str
    #: Digest of that model's weights.
    base_digest: str
    #: Rank of every pair of matrices.
    rank: int
    #: The product of a pair counts alpha / rank times.
    alpha: int
    #: Whether the convolutions are adapted beside attention, else the rest of the transformers.
    has_convolutions: bool
    #: Whether both text encoders are adapted too.
    has_text: bool
    #: Weights in the file.
    parameters: int
    #: The settings of the training.
    recipe: dict[str, object]
    #: CPU time of the training, minutes of one thread.
    cpu_minutes: float
    #: What it does, once `zoo.lora.report --cards` measured it.
    figures: Figures | None = None

    def write(self, path: Path) -> None:
        """Write the card."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> "Card":
        """Read a card."""
        fields = json.loads(path.read_text())
        figures = fields["figures"]
        return cls(**fields | {"figures": Figures(**figures) if figures else None})


def digest(paths: Iterable[Path]) -> str:
    """Digest the contents of files, in order."""
    total = hashlib.sha256()
    for path in paths:
        total.update(path.read_bytes())
    return total.hexdigest()[:16]


def model_digest(folder: Path) -> str:
    """Digest all weights of a model folder."""
    return digest(sorted(folder.glob("*/*.safetensors")))
