"""The trained classifier: its two-file folder format and inference."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from classifier.classes import Classes, nearest
from classifier.encoder.encoder import SentenceEncoder
from classifier.heads import Heads
from classifier.labels import Origin
from classifier.relative import Qualities, relative
from core.errors import ConfigurationError

CARD, HEADS = "classifier.json", "heads.safetensors"
BATCH = 32  #: prompts read in one go: more win nothing and take longer to answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a classifier knows, and how it came to know it."""

    levels: tuple[str, ...]  #: fastest first
    encoder: str  #: whose features the heads read
    classes: Classes
    origin: Origin  #: of the labels it was trained on
    labels: int = 0  #: it was trained on: judged images, or what teachers expect
    figures: Mapping[str, float] = field(default_factory=dict)  #: on prompts it never saw
    digest: str = ""  #: of its heads; '' where an older release trained it


class TrainedClassifier:
    """Expects the quality of every level from the words of a prompt. Any thread may ask it."""

    def __init__(self, folder: Path, encoder: SentenceEncoder) -> None:
        """Load it.

        Raises:
            ConfigurationError: the folder holds no classifier, or one for another encoder.
        """
        try:
            self.card = msgspec.json.decode((folder / CARD).read_bytes(), type=Card)
            self._heads = Heads(**load_file(folder / HEADS))
        except (OSError, msgspec.MsgspecError, SafetensorError, TypeError) as error:
            raise ConfigurationError(f"{folder}: not a classifier: {error}") from error
        if self.card.encoder != encoder.name:
            reads = f"reads {self.card.encoder}, and this is {encoder.name}"
            raise ConfigurationError(f"{folder}: {reads}; train one here: atelier train-classifier")
        self._encoder = encoder
        centres = self.card.classes.centres
        self.classes = tuple(centres)  #: every class it may answer
        self._centres = np.array([[row[x] for x in self.levels] for row in centres.values()])

    @property
    def levels(self) -> tuple[str, ...]:
        return self.card.levels

    def expect(self, prompts: Sequence[str]) -> Qualities:
        """Expect the quality of an image of each prompt at each level. Shapes: [P, L] in (0, 1)."""
        several = [prompts[i : i + BATCH] for i in range(0, len(prompts), BATCH)]
        found = [self._heads(self._encoder.features(some)) for some in several]
        return np.concatenate([np.empty((0, len(self.levels)), np.float32), *found])

    def predict(self, prompts: Sequence[str]) -> Qualities:
        """Predict qualities relative to each prompt's best level. Shapes: [P, L] in [0, 1]."""
        return relative(self.expect(prompts))

    def classify(self, prompts: Sequence[str]) -> list[str]:
        """Name the class of each prompt, in order."""
        member = nearest(self.predict(prompts), self._centres)
        return [self.classes[index] for index in member]


def save_classifier(folder: Path, card: Card, heads: Heads) -> None:
    """Write the two files; the card is last, so that half a classifier is none."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CARD).unlink(missing_ok=True)
    tensors = {name: np.ascontiguousarray(each) for name, each in asdict(heads).items()}
    save_file(tensors, folder / HEADS)
    (folder / HEADS).chmod(0o644)  # the library lets nobody else read it
    digest = hashlib.sha256((folder / HEADS).read_bytes()).hexdigest()[:16]
    _write_card(folder, replace(card, digest=digest))


def note_figures(folder: Path, figures: Mapping[str, float]) -> Card:
    """Add figures to the card of a classifier."""
    card = msgspec.json.decode((folder / CARD).read_bytes(), type=Card)
    noted = replace(card, figures={**card.figures, **figures})
    _write_card(folder, noted)
    return noted


def _write_card(folder: Path, card: Card) -> None:
    aside = folder / f"{CARD}.part"
    aside.write_bytes(msgspec.json.format(msgspec.json.encode(card), indent=1) + b"\n")
    aside.replace(folder / CARD)
