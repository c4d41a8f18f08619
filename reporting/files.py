"""Write a report into a folder: HTML, PNG, JSON and CSV."""

import csv
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

import msgspec

from reporting.document import Document
from reporting.html import render

Value = str | int | float | None


def write(
    document: Document, folder: Path, *, machine: object, rows: Sequence[Mapping[str, Value]]
) -> list[Path]:
    """Write report.html, report.png, report.json and report.csv.

    Args:
        machine: the report for programs, as JSON.
        rows: what happened over time, a row a stretch; all have the same columns.
    """
    from reporting.png import draw  # matplotlib: a second that no other command should wait

    folder.mkdir(parents=True, exist_ok=True)
    made = {
        "report.html": render(document).encode(),
        "report.png": draw(document),
        "report.json": msgspec.json.format(msgspec.json.encode(machine)),
        "report.csv": as_csv(rows).encode(),
    }
    for name, content in made.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in made]


def as_csv(rows: Sequence[Mapping[str, Value]]) -> str:
    """Write rows under the names of their columns; an empty cell is a value nobody knows."""
    text = StringIO()
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()
