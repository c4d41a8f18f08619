"""The cells that a router knows, as its file says: read again whenever it changes.

A JSON object: name -> `{"url": …, "state": "open" | "draining" | "closed", "weight": 1.0, "heir":
"…"}`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from core.cells.ids import CELL, cell_of, is_cell
from core.errors import ConfigurationError


class CellState(StrEnum):
    """What operators want of a cell."""

    OPEN = "open"  #: it takes new jobs
    DRAINING = "draining"  #: it ends what it has, and takes only what nobody else could make
    CLOSED = "closed"  #: nobody is there any more: its heir has what its tenants kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell, as the file says."""

    url: str  #: of its api
    state: CellState = CellState.OPEN
    #: how many tenants it is home to, beside others; None: as many as it says that it can serve
    weight: float | None = None
    #: the cell that has what tenants kept in this one, under the same ids; None: this one has it
    heir: str | None = None


Cells = Mapping[str, Cell]

_decoder = msgspec.json.Decoder(dict[str, Cell])


def parse_cells(text: bytes) -> Cells:
    """Read what a file says.

    Raises:
        ConfigurationError: it cannot be; the message says what is wrong.
    """
    try:
        cells = _decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise ConfigurationError(f"cells: {error}") from error
    if not cells:
        raise ConfigurationError("cells: there is none")
    for name, cell in cells.items():
        if fault := _fault(name, cell) or _fault_of_heir(name, cell, cells):
            raise ConfigurationError(f"cells: {name[:40]!r}: {fault}")
    return cells


def keeper_of(name: str, cells: Cells) -> str:
    """Name the cell that has what was kept in another: its heir, or its heir's."""
    heir = cells[name].heir
    return name if heir is None else keeper_of(heir, cells)


def _fault(name: str, cell: Cell) -> str:
    """Tell what is wrong with a cell; empty: nothing."""
    if not is_cell(name):
        return f"is no name of a cell: {CELL}"
    parts = urlsplit(cell.url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        return f"url: {cell.url[:200]!r} is none of an api"
    if cell.weight is not None and not 0 < cell.weight < 1e9:
        return "weight: must be above 0"
    return ""


def _fault_of_heir(name: str, cell: Cell, cells: Cells) -> str:
    """Tell what is wrong with who has what a cell kept; empty: nothing."""
    if cell.state is CellState.CLOSED and cell.heir is None:
        return "heir: name who has what this closed cell kept, or leave the cell out"
    if cell.heir is not None and cell.state is CellState.OPEN:
        return "heir: an open cell keeps what it has: drain it"
    before, heir = {name}, cell.heir
    while heir is not None:
        if heir not in cells or heir in before:
            return f"heir: {heir[:40]!r} is no other cell of the file"
        before.add(heir)
        heir = cells[heir].heir
    return ""


class CellsFile:
    """A file of cells, read again when it changes; one that cannot be read changes nothing."""

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            ConfigurationError: it is missing, or cannot be.
        """
        self._path = path
        self._text = b""
        self.cells: Cells = {}  #: those that are not closed
        self.keepers: Mapping[str, str] = {}  #: name of any -> who has what was kept there
        self.first = ""  #: whose ids without a name are
        self.refresh()

    def refresh(self) -> bool:
        """Read the file; tell whether it has changed.

        Raises:
            ConfigurationError: it is missing, or cannot be; what was read before stays.
        """
        try:
            text = self._path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"cells: {self._path}: {error.strerror}") from error
        if text == self._text:
            return False
        cells = parse_cells(text)
        self.cells = {n: cell for n, cell in cells.items() if cell.state is not CellState.CLOSED}
        self.keepers = {name: keeper_of(name, cells) for name in cells}
        self.first = next(iter(cells))
        self._text = text
        return True

    def keeper_of_id(self, kept_id: str) -> str | None:
        """Name the cell that has something kept; None: it has no id of a cell of this file."""
        cell = cell_of(kept_id)
        return None if cell is None else self.keepers.get(cell or self.first)
