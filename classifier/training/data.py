"""Load retraining data: encoder, classifier versions and shipped labels."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from classifier.encoder.encoder import SentenceEncoder
from classifier.files import ClassifierFiles
from classifier.labels import Labels, read_labels
from classifier.trained import TrainedClassifier
from classifier.training.retrain import NEW, RetrainResult, Shipped, retrain
from core.boards.classifier import SHIPPED, ClassifierVersion
from core.boards.score import Score
from core.errors import ConfigurationError, ObjectMissing

TAUGHT, TESTED = "train.jsonl.gz", "test.jsonl.gz"  #: labels, beside the classifier that ships


class TrainingData:
    """Everything that one retraining reads, and where what it makes goes."""

    def __init__(self, encoder: SentenceEncoder, files: ClassifierFiles, shipped: Shipped) -> None:
        self._encoder = encoder
        self._files = files
        self._shipped = shipped

    def teach(
        self, versions: Sequence[ClassifierVersion], scores: Sequence[Score]
    ) -> tuple[RetrainResult, str | None]:
        """Retrain; also name the classifier to put in force, its files stored, if one is better.

        `versions`: the one in force first; if none was published, that is the one that ships.

        Raises:
            ConfigurationError: there is no classifier to begin with, or too few labels.
            ObjectsUnavailable: files cannot be fetched or stored now.
        """
        ids = list(dict.fromkeys([*(version.id for version in versions), SHIPPED]))
        current, *others = ids
        with TemporaryDirectory() as folder:
            verdict = retrain(
                self._load(current),
                self._loadable(others),
                scores,
                self._shipped,
                encoder=self._encoder,
                folder=Path(folder),
            )
            chosen = verdict.chosen
            return verdict, self._files.put(Path(folder)) if chosen == NEW else chosen

    def _load(self, version_id: str) -> TrainedClassifier:
        return TrainedClassifier(self._files.get(version_id), self._encoder)

    def _loadable(self, version_ids: Sequence[str]) -> dict[str, TrainedClassifier]:
        """Load those that can be: one that is gone is none to go back to."""
        found = {}
        for version_id in version_ids:
            try:
                found[version_id] = self._load(version_id)
            except (ConfigurationError, ObjectMissing):
                continue
        return found


def read_shipped(folder: Path) -> Shipped:
    """Read the labels beside the classifier that ships; an operator's own models may have none."""
    return Shipped(taught=_read(folder / TAUGHT), tested=_read(folder / TESTED))


def _read(path: Path) -> Labels | None:
    return read_labels(path) if path.exists() else None
