"""File format of labels: qualities of judged images, one prompt a line."""

import gzip
import zlib
from collections.abc import Mapping, Sequence, Set
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
    #: [P, L, R], of each image; NaN where there is none. In [0, 1] if it was checked, and where it
    #: was estimated on average.
    quality: Qualities
    #: [P, L, R], how much each tells: 1 for an image that was checked, less for an estimate (the
    #: variance of the former over that of the latter), 0 where there is none.
    weight: Qualities
    origin: Origin = Origin()

    @property
    def counts(self) -> Qualities:
        """Count the images. Shapes: [P, L]."""
        return np.asarray((~np.isnan(self.quality)).sum(axis=2), np.float32)

    @property
    def weights(self) -> Qualities:
        """Add up what is known, in checked images. Shapes: [P, L]."""
        return np.asarray(self.weight.sum(axis=2), np.float32)

    @property
    def mean(self) -> Qualities:
        """Average over the images of a prompt at a level, 0 if there are none. Shapes: [P, L]."""
        total = np.nansum(self.quality * self.weight, axis=2)
        weights = self.weights
        mean = np.divide(total, weights, out=np.zeros_like(weights), where=weights > 0)
        return np.asarray(mean, np.float32)

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
        some = list(columns)
        return replace(
            self, levels=levels, quality=self.quality[:, some], weight=self.weight[:, some]
        )

    def chosen(self, rows: Sequence[int] | NDArray[np.int64]) -> "Labels":
        """Keep some prompts."""
        prompts = tuple(self.prompts[row] for row in rows)
        some = np.asarray(rows, np.int64)
        return replace(self, prompts=prompts, quality=self.quality[some], weight=self.weight[some])


class _Head(msgspec.Struct, omit_defaults=True):
    levels: tuple[str, ...]
    origin: Origin
    weight: float = 1.0  #: of every value; 1 if they are checked images


class _Line(msgspec.Struct):
    prompt: str
    quality: dict[str, list[float]]  #: level -> of each image


def labels_of(
    levels: Sequence[str],
    judged: Sequence[tuple[str, Mapping[str, Sequence[float]]]],
    origin: Origin | None = None,
    weight: float = 1.0,
) -> Labels:
    """Put qualities of one weight, each prompt with level -> of its images, into one table."""
    repeats = max((len(some) for _, row in judged for some in row.values()), default=0)
    quality = np.full((len(judged), len(levels), repeats), np.nan, np.float32)
    for row, (_, by_level) in enumerate(judged):
        for level, some in by_level.items():
            quality[row, levels.index(level), : len(some)] = some
    prompts = tuple(prompt for prompt, _ in judged)
    return Labels(
        levels=tuple(levels),
        prompts=prompts,
        quality=quality,
        weight=np.where(np.isnan(quality), 0, weight).astype(np.float32),
        origin=origin or Origin(),
    )


def merged(labels: Labels) -> Labels:
    """Put the images of equal prompts together."""
    rows_of: dict[str, list[int]] = {}
    for row, prompt in enumerate(labels.prompts):
        rows_of.setdefault(prompt, []).append(row)
    deepest = max(map(len, rows_of.values()), default=1)
    count, width, repeats = len(rows_of), len(labels.levels), labels.quality.shape[2]
    quality = np.full((count, width, deepest, repeats), np.nan, np.float32)
    weight = np.zeros_like(quality)
    for at, rows in enumerate(rows_of.values()):
        quality[at, :, : len(rows)] = labels.quality[rows].swapaxes(0, 1)
        weight[at, :, : len(rows)] = labels.weight[rows].swapaxes(0, 1)
    flat = (count, width, deepest * repeats)
    return replace(
        labels, prompts=tuple(rows_of), quality=quality.reshape(flat), weight=weight.reshape(flat)
    )


def write_labels(path: Path, labels: Labels) -> None:
    """Write a file, whole or not at all; equal labels give equal bytes.

    Raises:
        ValueError: not all weigh the same; a file holds one weight.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.part")
    encode = msgspec.json.encode
    head = _Head(levels=labels.levels, origin=labels.origin, weight=_weight_of(labels))
    lines = [encode(head)]
    pairs = zip(labels.prompts, labels.judged(), strict=True)
    lines += [encode(_Line(prompt=prompt, quality=row)) for prompt, row in pairs]
    aside.write_bytes(gzip.compress(b"\n".join(lines) + b"\n", mtime=0))
    aside.replace(path)


def _weight_of(labels: Labels) -> float:
    known = np.unique(labels.weight[labels.weight > 0])
    if len(known) > 1:
        raise ValueError(f"labels of {len(known)} weights do not fit into one file")
    return float(known[0]) if len(known) else 1.0


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
        _check_levels(known.levels, [quality.keys() for _, quality in judged])
        return labels_of(known.levels, judged, known.origin, known.weight)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise ConfigurationError(f"{path}: no labels: {error}") from error


def _check_levels(known: Sequence[str], named: Sequence[Set[str]]) -> None:
    """Refuse levels that the first line does not list. Raises: ValueError with the line."""
    for number, levels in enumerate(named, start=2):
        if unknown := sorted(levels - set(known)):
            have = ", ".join(known)
            raise ValueError(f"line {number}: level {unknown[0]!r} is none of line 1: {have}")
