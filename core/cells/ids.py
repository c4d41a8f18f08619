"""Ids of jobs and of what tenants keep: 32 hex digits, after the name of their cell. Pure.

So whoever holds an id knows which cell to ask, without a table that all cells would share.
"""

import re
from typing import Final
from uuid import uuid4

#: How cells are named.
CELL: Final = r"[a-z][a-z0-9]{0,15}"

#: How ids look; those of a service without cells have no name before them.
PATTERN: Final = rf"(?:(?:{CELL})_)?[0-9a-f]{{32}}"

_CELL = re.compile(CELL)
_ID = re.compile(rf"(?:({CELL})_)?[0-9a-f]{{32}}")


def new_id(cell: str = "") -> str:
    """Draw an id of a cell; of a service without cells if it has no name."""
    return f"{cell}_{uuid4().hex}" if cell else uuid4().hex


def is_id(text: str) -> bool:
    """Tell whether a text is an id."""
    return _ID.fullmatch(text) is not None


def cell_of(text: str) -> str | None:
    """Name the cell of an id, empty if it has none; None: it is no id."""
    found = _ID.fullmatch(text)
    return None if found is None else found[1] or ""


def is_cell(name: str) -> bool:
    """Tell whether a cell may have this name."""
    return _CELL.fullmatch(name) is not None
