"""Label file with resume: the draws it has and lacks, and adding further ones."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from classifier.labels import Labels, Origin, labels_of, read_labels, write_labels
from core.errors import ConfigurationError
from core.levels.level import Level
from zoo.quality.draws import Draw


class Ledger:
    """Judged images by prompt and level, kept in one file of labels."""

    def __init__(
        self, path: Path, levels: Sequence[Level], captions: Sequence[str], origin: Origin
    ) -> None:
        self._path = path
        self._levels = [level.name for level in levels]
        self._captions = captions
        self._origin = origin
        self._judged: list[dict[str, list[float]]] = [{} for _ in captions]

    def missing(self, draws: Iterable[Draw]) -> list[Draw]:
        """Take up what the file holds, and give the draws that it does not hold, in order.

        Raises:
            ConfigurationError: its images were made otherwise, or are not of these draws.
        """
        if not self._path.exists():
            return list(draws)
        labels = read_labels(self._path)
        if labels.origin != self._origin:
            raise ConfigurationError(
                f"{self._path}: labels of other images ({labels.origin}, not {self._origin}); "
                "write to another file, or remove this one"
            )
        held, missing = self._sorted(labels, draws)
        self._take_up(labels, held)
        return missing

    def add(self, draw: Draw, qualities: Sequence[float]) -> None:
        """Enter the images of a draw, [images of the draw], and write the file."""
        for row, quality in zip(draw.rows, qualities, strict=True):
            self._judged[row].setdefault(draw.level.name, []).append(quality)
        write_labels(self._path, self.labels())

    def labels(self) -> Labels:
        """Put what was judged so far into one table."""
        pairs = zip(self._captions, self._judged, strict=True)
        return labels_of(self._levels, [(each, row) for each, row in pairs if row], self._origin)

    def _sorted(self, labels: Labels, draws: Iterable[Draw]) -> tuple[list[Draw], list[Draw]]:
        """Part the draws whose images are there from others.

        A file names no rows, and several prompts have the same words: images are counted by words.
        """
        left = _images(labels)
        held, missing = [], []
        for draw in draws:
            needed = Counter((draw.level.name, self._captions[row]) for row in draw.rows)
            if all(left[image] >= count for image, count in needed.items()):
                left.subtract(needed)
                held.append(draw)
            else:
                missing.append(draw)
        return held, missing

    def _take_up(self, labels: Labels, held: Sequence[Draw]) -> None:
        rows = sorted({row for draw in held for row in draw.rows})
        if tuple(self._captions[row] for row in rows) != labels.prompts:
            raise ConfigurationError(f"{self._path}: labels of other prompts; remove this file")
        for row, found in zip(rows, labels.judged(), strict=True):
            self._judged[row] = found


def _images(labels: Labels) -> Counter[tuple[str, str]]:
    """Count images by level and words."""
    counted: Counter[tuple[str, str]] = Counter()
    for prompt, judged in zip(labels.prompts, labels.judged(), strict=True):
        counted.update({(level, prompt): len(some) for level, some in judged.items()})
    return counted
