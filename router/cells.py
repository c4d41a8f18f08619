"""The cells that a router knows, as its file says: read again whenever it changes.

A JSON object: name -> `{"url": …, "state": "open" | "draining", "weight": 1.0}`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from core.cells.ids import CELL, is_cell
from core.errors import ConfigurationError


class CellState(StrEnum):
    """What operators want of a cell."""

    OPEN = "open"  #: it takes new jobs
    DRAINING = "draining"  #: it ends what it has, and takes only what nobody else could make


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell, as the file says."""

    url: str  #: of its api
    state: CellState = CellState.OPEN
    #: how many tenants it is home to, beside others; None: as many as it says that it can serve
    weight: float | None = None


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
        if fault := _fault(name, cell):
            raise ConfigurationError(f"cells: {name[:40]!r}: {fault}")
    return cells


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


class CellsFile:
    """A file of cells, read again when it changes; one that cannot be read changes nothing."""

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            ConfigurationError: it is missing, or cannot be.
        """
        self._path = path
        self._text = b""
        self.cells: Cells = {}
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
        self.cells = parse_cells(text)
        self._text = text
        return True
