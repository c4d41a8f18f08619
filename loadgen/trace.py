"""Read a recorded trace of requests from CSV.

A CSV file with a header. `at_s`, seconds after the start, is required; `prompt`, `model`,
`application`, `priority`, `quality`, `steps`, `n`, `width`, `height`, `seed`, `guidance` and
`deadline_s` are optional, and an empty cell means the default.
"""

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from core.errors import ConfigurationError
from loadgen.ask import Option, TimedRequest

NOTHING: Mapping[str, Option] = {}

COLUMNS: dict[str, Callable[[str], Option]] = {
    "model": str,
    "application": str,
    "priority": str,
    "quality": str,
    "steps": int,
    "n": int,
    "width": int,
    "height": int,
    "seed": int,
    "guidance": float,
    "deadline_s": float,
}


def _ask(
    row: Mapping[str, str], number: int, prompts: Sequence[str], options: Mapping[str, Option]
) -> TimedRequest:
    own = {name: COLUMNS[name](row[name]) for name in COLUMNS if row.get(name)}
    prompt = row.get("prompt") or prompts[number % len(prompts)]
    return TimedRequest(
        at_s=_moment(row["at_s"]), prompt=prompt, options={"seed": number, **options, **own}
    )


def _moment(text: str) -> float:
    at_s = float(text)
    if not 0 <= at_s < math.inf:
        raise ValueError(f"at_s must be seconds after the start: {text!r}")
    return at_s


def _check_header(header: Sequence[str]) -> None:
    if "at_s" not in header:
        raise ConfigurationError("trace: the header needs a column `at_s` (seconds)")
    unknown = sorted(set(header) - set(COLUMNS) - {"at_s", "prompt"})
    if unknown:
        raise ConfigurationError(f"trace: unknown columns {', '.join(unknown)}")


def parse_trace(
    lines: Iterable[str], prompts: Sequence[str], options: Mapping[str, Option] = NOTHING
) -> list[TimedRequest]:
    """Read the rows of a trace in the order of their time; rows without a prompt take turns.

    Args:
        options: hold wherever a row leaves them open.

    Raises:
        ConfigurationError: the header or a row cannot be read; the message names the line.
    """
    reader = csv.DictReader(lines)
    _check_header(reader.fieldnames or ())
    asks = []
    for number, row in enumerate(reader):
        try:
            asks.append(_ask(row, number, prompts, options))
        except (ValueError, TypeError) as error:
            raise ConfigurationError(f"trace: line {reader.line_num}: {error}") from error
    return sorted(asks, key=lambda ask: ask.at_s)


def read_trace(
    path: Path,
    prompts: Sequence[str],
    options: Mapping[str, Option] = NOTHING,
    *,
    speed: float = 1.0,
) -> list[TimedRequest]:
    """Read a trace file and play it `speed` times as fast."""
    with path.open(newline="", encoding="utf-8") as lines:
        asks = parse_trace(lines, prompts, options)
    return [replace(ask, at_s=ask.at_s / speed) for ask in asks]
