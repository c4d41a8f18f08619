"""Read prompts with their class and their quality at every level, from text or JSON lines."""

import codecs
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.errors import ConfigurationError

#: Most bytes of a line and of a file, characters of a prompt, qualities in all.
MAX_LINE, MAX_FILE, MAX_PROMPT, MAX_QUALITIES = 64 * 1024, 256 * 1024**2, 10_000, 20_000_000

#: Of files that hold JSON lines, whatever their lines look like.
JSON_SUFFIXES = (".json", ".jsonl")

Qualities = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PromptSet:
    """Prompts, and what is known of them."""

    texts: tuple[str, ...]
    classes: tuple[str | None, ...]  #: of each, as the classifier names it
    levels: tuple[str, ...] = ()
    quality: Qualities  #: [P, L] in [0, 1]; nan where it is not known

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def has_quality(self) -> bool:
        """Whether every prompt has a quality at every level."""
        return bool(self.levels) and not bool(np.isnan(self.quality).any())


class _Line(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    prompt: str
    class_: str | None = msgspec.field(default=None, name="class")
    quality: dict[str, float] = {}


_DECODE = msgspec.json.Decoder(_Line).decode


def prompt_set(texts: Iterable[str]) -> PromptSet:
    """Take plain prompts, of which nothing else is known."""
    given = tuple(texts)
    return PromptSet(texts=given, classes=(None,) * len(given), quality=np.empty((len(given), 0)))


def read_prompts(path: Path) -> PromptSet:
    """Read a file: JSON lines as `write_prompts` writes them, or one plain prompt a line.

    It has JSON lines if it is called so, or if any line begins as an object: then all must be one.

    Raises:
        ConfigurationError: it is no such file, or too large; the message names line and field.
    """
    try:
        with path.open("rb") as file:
            lines = list(_lines(file.readline))
    except OSError as error:
        raise ConfigurationError(f"prompts: {path}: {error.strerror}") from error
    is_json = path.suffix.lower() in JSON_SUFFIXES or any(raw.startswith(b"{") for _, raw in lines)
    return _put_together([_parse(raw, at, is_json=is_json) for at, raw in lines])


def write_prompts(path: Path, prompts: PromptSet) -> None:
    """Write JSON lines, qualities to four places."""
    rows = zip(prompts.texts, prompts.classes, prompts.quality.tolist(), strict=True)
    lines = [
        msgspec.json.encode(_Line(text, named, _row(prompts.levels, row)))
        for text, named, row in rows
    ]
    path.write_bytes(b"\n".join(lines) + b"\n")


def _row(levels: tuple[str, ...], row: list[float]) -> dict[str, float]:
    pairs = zip(levels, row, strict=True)
    return {level: round(quality, 4) for level, quality in pairs if quality == quality}


def _lines(readline: Callable[[int], bytes]) -> Iterator[tuple[int, bytes]]:
    total = number = 0
    while raw := readline(MAX_LINE + 1):
        number, total = number + 1, total + len(raw)
        if len(raw) > MAX_LINE or total > MAX_FILE:
            most = f"{MAX_LINE} bytes" if len(raw) > MAX_LINE else f"{MAX_FILE >> 20} MiB in all"
            raise ConfigurationError(f"prompts: line {number}: more than {most}")
        line = raw.removeprefix(codecs.BOM_UTF8).strip() if number == 1 else raw.strip()
        if line:
            yield number, line


def _parse(raw: bytes, number: int, *, is_json: bool) -> _Line:
    if is_json and not raw.startswith(b"{"):
        said = 'is no JSON object, as each line of JSON lines must be: {"prompt": …}'
        raise ConfigurationError(f"prompts: line {number}: {said}")
    try:
        line = _DECODE(raw) if is_json else _Line(prompt=raw.decode())
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"prompts: line {number}: {error}") from error
    if not 0 < len(line.prompt) <= MAX_PROMPT:
        raise ConfigurationError(f"prompts: line {number}: prompt: 1 to {MAX_PROMPT} characters")
    for level, quality in line.quality.items():
        if not 0 <= quality <= 1:
            what = f"quality.{level[:80]}: {quality} is not between 0 and 1"
            raise ConfigurationError(f"prompts: line {number}: {what}")
    return line


def _put_together(lines: Sequence[_Line]) -> PromptSet:
    if not lines:
        raise ConfigurationError("prompts: the file names none")
    columns: dict[str, int] = {}
    for line in lines:
        for level in line.quality:
            columns.setdefault(level, len(columns))
    if len(columns) * len(lines) > MAX_QUALITIES:
        raise ConfigurationError(f"prompts: {len(columns)} levels of {len(lines)} are too many")
    quality = np.full((len(lines), len(columns)), np.nan)
    for row, line in enumerate(lines):
        for level, value in line.quality.items():
            quality[row, columns[level]] = value
    return PromptSet(
        texts=tuple(line.prompt for line in lines),
        classes=tuple(line.class_ for line in lines),
        levels=tuple(columns),
        quality=quality,
    )
