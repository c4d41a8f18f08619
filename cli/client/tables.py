"""Print tables that never lose a column: what is too wide for the terminal goes down the page.

Only a column that may be cut gives way, down to a few characters. What is piped is never cut.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Characters that are left of a column that is cut.
LEAST: Final = 16
#: Characters of a line that goes to a program.
UNBOUNDED: Final = 100_000
#: Characters between columns.
PADDING: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """One column of a table."""

    name: str
    is_cut: bool = False  #: where the terminal ends
    is_number: bool = False  #: aligned at its right side


Cell = str | Text


def print_table(
    columns: Sequence[str | TableColumn],
    rows: Iterable[Sequence[Cell]],
    *,
    title: str | None = None,
) -> None:
    """Print rows below each other, or, if they are too wide, one field of a row below the other."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=UNBOUNDED)
    named = [
        column if isinstance(column, TableColumn) else TableColumn(name=column)
        for column in columns
    ]
    shown = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    least = [_least_width(column, [row[i] for row in shown]) for i, column in enumerate(named)]
    is_wide = sum(least) + PADDING * len(named) > console.width
    table = _down(named, shown) if is_wide else _across(named, least, shown)
    if title:
        console.print(title, highlight=False, markup=False)
    console.print(table, highlight=False)


def _least_width(column: TableColumn, cells: Sequence[Text]) -> int:
    width = max((cell.cell_len for cell in (Text(column.name), *cells)), default=0)
    return min(width, LEAST) if column.is_cut else width


def _across(
    columns: Sequence[TableColumn], least: Sequence[int], rows: Sequence[Sequence[Text]]
) -> Table:
    table = Table(box=None)
    for column, width in zip(columns, least, strict=True):
        table.add_column(
            column.name,
            no_wrap=not column.is_cut,
            min_width=width,
            overflow="ellipsis",
            justify="right" if column.is_number else "left",
        )
    for row in rows:
        for cell in row:
            cell.no_wrap, cell.overflow = True, "ellipsis"
        table.add_row(*row)
    return table


def _down(columns: Sequence[TableColumn], rows: Sequence[Sequence[Text]]) -> Table:
    table = Table(box=None, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        for column, cell in zip(columns, row, strict=True):
            whole = cell.copy()
            whole.no_wrap, whole.overflow = False, "fold"
            table.add_row(column.name, whole)
        table.add_row("", "")
    return table
