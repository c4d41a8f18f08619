"""Load retraining data: encoder, classifier versions and shipped labels."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from classifier.encoder.encoder import SentenceEncoder
from classifier.files import ClassifierFiles
from classifier.labels import Labels, read_labels, write_labels
from classifier.trained import TrainedClassifier
from classifier.training.retrain import NEW, RetrainResult, Shipped, retrain
from core.boards.classifier import SHIPPED, ClassifierVersion, taught_from
from core.boards.score import Score
from core.errors import ConfigurationError, ObjectMissing
from core.settings import CLASSIFIER, Settings

TAUGHT, TESTED = "train.jsonl.gz", "test.jsonl.gz"  #: labels, beside a classifier


class TrainingData:
    """Everything that one retraining reads, and where what it makes goes."""

    def __init__(self, encoder: SentenceEncoder, files: ClassifierFiles, shipped: Shipped) -> None:
        self._encoder = encoder
        self._files = files
        self._shipped = shipped

    def retrain(
        self, versions: Sequence[ClassifierVersion], scores: Sequence[Score]
    ) -> tuple[RetrainResult, str | None]:
        """Retrain; also name the classifier to put in force, its files stored, if one is better.

        `versions`: the one in force first. It is the one that ships if none was published, or the
        first cannot be used: schedulers go by that then.

        Raises:
            ConfigurationError: there is no classifier to begin with, or too few labels.
            ObjectsUnavailable: files cannot be fetched or stored now.
        """
        base = self._load(SHIPPED)
        ids = [version.id for version in taught_from(base.card.digest, versions)]
        known = self._usable(ids, base)
        current = ids[0] if ids and ids[0] in known else SHIPPED
        with TemporaryDirectory() as folder:
            verdict = retrain(
                known.pop(current),
                known,
                scores,
                self._shipped,
                encoder=self._encoder,
                folder=Path(folder),
            )
            verdict = replace(verdict, base=base.card.digest)
            chosen = verdict.chosen
            return verdict, self._files.put(Path(folder)) if chosen == NEW else chosen

    def forget(self, version_ids: Iterable[str]) -> None:
        """Delete the files of versions that nobody goes back to.

        Raises:
            ObjectsUnavailable: the store cannot serve now.
        """
        self._files.delete(version_ids)

    def _load(self, version_id: str) -> TrainedClassifier:
        return TrainedClassifier(self._files.get(version_id), self._encoder)

    def _usable(
        self, version_ids: Sequence[str], base: TrainedClassifier
    ) -> dict[str, TrainedClassifier]:
        """Load those that can be, and the base: one that is gone is none to go back to.

        Nor is one that names no weights where its base does, as older releases made them: no
        scheduler takes it.
        """
        found = {SHIPPED: base}
        for version_id in version_ids:
            try:
                each = self._load(version_id)
            except (ConfigurationError, ObjectMissing):
                continue
            if each.card.origin.digests or not base.card.origin.digests:
                found[version_id] = each
        return found


def labels_folder(settings: Settings) -> Path:
    """Say where labels are: beside the classifier that is used, else beside the one that ships."""
    own = settings.classifier_path
    has_labels = (own / TAUGHT).exists() or (own / TESTED).exists()
    return own if has_labels else settings.models_dir.parent / CLASSIFIER


def read_shipped(folder: Path) -> Shipped:
    """Read the labels beside a classifier; an operator's own models may have none."""
    return Shipped(taught=_read(folder / TAUGHT), tested=_read(folder / TESTED))


def keep_labels(folder: Path, *, taught: Labels, tested: Labels) -> None:
    """Write labels beside the classifier they belong to: it is retrained from them."""
    write_labels(folder / TAUGHT, taught)
    write_labels(folder / TESTED, tested)


def _read(path: Path) -> Labels | None:
    return read_labels(path) if path.exists() else None
