"""What is known of how well levels draw prompts? A file of judged images, one prompt a line."""

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.errors import ConfigurationError

Qualities = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """How the images of labels were made and judged."""

    digests: Mapping[str, str] = field(default_factory=dict)  #: model -> SHA-256 of its weights
    prompts: str = ""  #: which set, and its fingerprint
    steps: int = 0  #: of a full schedule
    remembered: int = 0  #: prompts whose latents a level with K > 0 started from
    judge: str = ""  #: what a quality is
    versions: Mapping[str, str] = field(default_factory=dict)  #: of libraries


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labels:
    """Judged images of prompts at levels. Most prompts were made at few levels only."""

    levels: tuple[str, ...]  #: fastest first
    prompts: tuple[str, ...]
    #: [P, L, R] in [0, 1], of each image; NaN where there is none.
    quality: Qualities
    origin: Origin = Origin()

    @property
    def counts(self) -> Qualities:
        """Count the images. Shapes: [P, L]."""
        return np.asarray((~np.isnan(self.quality)).sum(axis=2), np.float32)

    @property
    def mean(self) -> Qualities:
        """Average over the images of a prompt at a level, 0 if there are none. Shapes: [P, L]."""
        return np.asarray(np.nansum(self.quality, axis=2) / np.maximum(self.counts, 1), np.float32)

    def judged(self) -> list[dict[str, list[float]]]:
        """List by prompt: level -> qualities of its images; levels without any are left out."""
        return [
            {
                level: [round(float(each), 4) for each in some[~np.isnan(some)]]
                for level, some in zip(self.levels, row, strict=True)
                if not np.isnan(some).all()
            }
            for row in self.quality
        ]

    def at(self, columns: Sequence[int]) -> "Labels":
        """Keep some levels."""
        levels = tuple(self.levels[column] for column in columns)
        return replace(self, levels=levels, quality=self.quality[:, list(columns)])

    def chosen(self, rows: Sequence[int] | NDArray[np.int64]) -> "Labels":
        """Keep some prompts."""
        prompts = tuple(self.prompts[row] for row in rows)
        return replace(self, prompts=prompts, quality=self.quality[np.asarray(rows, np.int64)])


class _Head(msgspec.Struct):
    levels: tuple[str, ...]
    origin: Origin


class _Line(msgspec.Struct):
    prompt: str
    quality: dict[str, list[float]]  #: level -> of each image


def labels_of(
    levels: Sequence[str],
    judged: Sequence[tuple[str, Mapping[str, Sequence[float]]]],
    origin: Origin | None = None,
) -> Labels:
    """Put judged images, each prompt with level -> qualities, into one table."""
    repeats = max((len(some) for _, row in judged for some in row.values()), default=0)
    quality = np.full((len(judged), len(levels), repeats), np.nan, np.float32)
    for row, (_, by_level) in enumerate(judged):
        for level, some in by_level.items():
            quality[row, levels.index(level), : len(some)] = some
    prompts = tuple(prompt for prompt, _ in judged)
    return Labels(levels=tuple(levels), prompts=prompts, quality=quality, origin=origin or Origin())


def merged(labels: Labels) -> Labels:
    """Put the images of equal prompts together."""
    rows: dict[str, dict[str, list[float]]] = {}
    for prompt, judged in zip(labels.prompts, labels.judged(), strict=True):
        row = rows.setdefault(prompt, {})
        for level, some in judged.items():
            row.setdefault(level, []).extend(some)
    return labels_of(labels.levels, list(rows.items()), labels.origin)


def write_labels(path: Path, labels: Labels) -> None:
    """Write a file, whole or not at all; equal labels give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.part")
    encode = msgspec.json.encode
    lines = [encode(_Head(levels=labels.levels, origin=labels.origin))]
    pairs = zip(labels.prompts, labels.judged(), strict=True)
    lines += [encode(_Line(prompt=prompt, quality=row)) for prompt, row in pairs]
    aside.write_bytes(gzip.compress(b"\n".join(lines) + b"\n", mtime=0))
    aside.replace(path)


def read_labels(path: Path) -> Labels:
    """Read a file.

    Raises:
        ConfigurationError: it is not there, or holds no labels; the message names it.
    """
    try:
        head, *lines = gzip.decompress(path.read_bytes()).splitlines()
        known = msgspec.json.decode(head, type=_Head)
        read = msgspec.json.Decoder(_Line).decode
        judged = [(line.prompt, line.quality) for line in map(read, lines)]
        return labels_of(known.levels, judged, known.origin)
    except (OSError, ValueError, EOFError) as error:
        raise ConfigurationError(f"{path}: no labels: {error}") from error
