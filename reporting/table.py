"""Tables of a report: figures in columns, with bars and intervals in their cells. Pure data."""

from collections.abc import Sequence
from dataclasses import dataclass

from reporting.unit import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A figure that is known up to its uncertainty."""

    low: float
    middle: float
    high: float


FARTHEST = 4.0  #: bounds that a column of intervals reaches

Cell = str | float | Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column."""

    title: str
    unit: Unit | None = None  #: None: text
    about: str = ""  #: what the figure is; shown with the title
    has_bar: bool = False  #: a bar from zero shows the figure beside its digits
    bound: float | None = None  #: a line across intervals: what they are held against
    is_best_high: bool | None = None  #: the best figure is set in bold; None: there is no best


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: its name and its cells."""

    name: str
    cells: Sequence[Cell]
    paint: str | None = None  #: of the swatch beside its name
    tone: str = ""  #: good, bad, or muted


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under columns; the first column is their names."""

    title: str
    about: str = ""
    head: str  #: over the names
    columns: Sequence[Column]
    rows: Sequence[Row]


def best_of(table: Table, index: int) -> float | None:
    """Find the best figure of a column, if it has one and rows differ."""
    wants_high = table.columns[index].is_best_high
    figures = [row.cells[index] for row in table.rows]
    found = [each for each in figures if isinstance(each, int | float)]
    if wants_high is None or len(set(found)) < 2:
        return None
    return max(found) if wants_high else min(found)


def reach(table: Table, index: int) -> tuple[float, float]:
    """Find between what figures the bars and intervals of a column are drawn.

    Bars begin at zero. What is far beyond a bound is drawn at the end, so that it hides no other.
    """
    column, ends = table.columns[index], [0.0] if table.columns[index].has_bar else []
    if column.bound is not None:
        ends.append(column.bound)
    for row in table.rows:
        cell = row.cells[index]
        if isinstance(cell, Interval):
            ends += [cell.low, cell.high]
        elif isinstance(cell, int | float):
            ends.append(cell)
    if not ends:
        return 0.0, 0.0
    top = max(ends)
    return min(ends), top if column.bound is None else min(top, FARTHEST * column.bound)
