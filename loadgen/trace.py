"""Read a recorded trace of requests from CSV, at bounded cost whatever the file holds.

A header, then a request a line. `at` is required: seconds after the start, rising (`at_s`, its
older name, in any order). The other columns are optional, and an empty cell means the default.
"""

import csv
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from core.errors import ConfigurationError
from loadgen.trace_columns import (
    FIELDS,
    OTHERS,
    SHOWN,
    CellReader,
    Moments,
    Names,
    Numbers,
    OtherValues,
    Prompts,
)
from loadgen.workload import Workload

#: Most bytes of a line and of a file, and most requests.
MAX_LINE, MAX_FILE, MAX_ROWS = 64 * 1024, 4 * 1024**3, 20_000_000
MOMENTS = ("at", "at_s")
KNOWN = frozenset({*MOMENTS, *FIELDS, *OTHERS, "application", "model", "prompt"})


def parse_trace(
    lines: Iterable[str],
    prompts: Sequence[str],
    *,
    most: int = MAX_ROWS,
    models: Collection[str] | None = None,
) -> Workload:
    """Read the rows of a trace; those without a prompt take turns. `models`: None for any.

    Raises:
        ConfigurationError: the header or a row cannot be read; the message names line and field.
    """
    reader = csv.reader(lines, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        columns = _columns(header, prompts, models)
        for number, cells in enumerate(filter(None, reader), start=1):
            if number > most:
                raise ValueError(f"more than {most} requests")
            _add(columns, cells)
    except (ValueError, csv.Error) as error:
        raise ConfigurationError(f"trace: line {max(1, reader.line_num)}: {error}") from error
    return _workload(columns, prompts)


def read_trace(
    path: Path,
    prompts: Sequence[str],
    *,
    speed: float = 1.0,
    models: Collection[str] | None = None,
) -> Workload:
    """Read a trace file and play it `speed` times as fast. `models`: that it may name, None: any.

    Raises:
        ConfigurationError: it cannot be read; the message names line and field.
    """
    try:
        with path.open("rb") as file:
            return parse_trace(_lines(file), prompts, models=models).faster(speed)
    except OSError as error:
        raise ConfigurationError(f"trace: {path}: {error.strerror}") from error


def _lines(file: BinaryIO) -> Iterator[str]:
    total = 0
    while raw := file.readline(MAX_LINE + 1):
        total += len(raw)
        if len(raw) > MAX_LINE:
            raise ValueError(f"the line after it has more than {MAX_LINE} bytes")
        if total > MAX_FILE:
            raise ValueError(f"more than {MAX_FILE >> 20} MiB")
        yield raw.decode("utf-8-sig" if total == len(raw) else "utf-8")


def _columns(
    header: Sequence[str], prompts: Sequence[str], models: Collection[str] | None
) -> dict[str, CellReader]:
    unknown = sorted(set(header) - KNOWN)
    if unknown:
        names = ", ".join(name[:SHOWN] for name in unknown[:10])
        raise ValueError(f"unknown columns {names}; known are {', '.join(sorted(KNOWN))}")
    if len(set(header)) < len(header):
        raise ValueError("a column is there twice")
    if sum(name in header for name in MOMENTS) != 1:
        raise ValueError("the header needs one column `at` (seconds), or `at_s`")
    return {name: _column(name, prompts, models) for name in header}


def _column(name: str, prompts: Sequence[str], models: Collection[str] | None) -> CellReader:
    if name in MOMENTS:
        return Moments(is_sorted=name == "at")
    if name in FIELDS:
        return Numbers(FIELDS[name])
    if name in OTHERS:
        return OtherValues(OTHERS[name])
    if name == "prompt":
        return Prompts(prompts)
    return Names(models if name == "model" else None)


def _add(columns: Mapping[str, CellReader], cells: Sequence[str]) -> None:
    if len(cells) != len(columns):
        raise ValueError(f"{len(cells)} cells under {len(columns)} columns")
    for (name, column), cell in zip(columns.items(), cells, strict=True):
        try:
            column.add(cell.strip())
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error


def _workload(columns: Mapping[str, CellReader], prompts: Sequence[str]) -> Workload:
    found = {name: column.column for name, column in columns.items()}
    at_s = found.pop("at", found.pop("at_s", np.empty(0)))
    order = np.argsort(at_s, kind="stable")
    rows = {name: column[order] for name, column in found.items()}
    numbers = {FIELDS[name].column: rows[name] for name in rows if name in FIELDS}
    application, model = columns.get("application"), columns.get("model")
    asked = columns.get("prompt")
    return Workload.of(
        at_s[order],
        prompts=asked.texts if isinstance(asked, Prompts) else prompts,
        prompt=rows["prompt"] if "prompt" in rows else order % len(prompts),
        applications=application.names if isinstance(application, Names) else (),
        application=rows.get("application", -1),
        models=model.names if isinstance(model, Names) else (),
        model=rows.get("model", -1),
        others={name: rows[name] for name in rows if name in OTHERS},
        **numbers,
    )
