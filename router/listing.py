"""Merge pages of several cells, newest first. Pure.

Cursors of cells are a moment and an id, which mean a place in any list; so the merged page's is one
of theirs. Behind the place where a cell's own page ends it may have more than it has told, so
nothing older than that is shown before its next page.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

#: What pages keep their rows in, by what asks for them.
ROWS: Final = ("data", "results")

Row = Mapping[str, Any]
Moment = tuple[int, str]  #: moment (epoch ms) and id
Keeper = Callable[[str], str | None]  #: id -> the only cell that may show it; None: any may


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedPage:
    """What a client is shown."""

    rows: Sequence[Row]
    cursor: str | None


def merge(pages: Sequence[tuple[Sequence[Row], str | None]], limit: int) -> MergedPage:
    """Merge pages, each with its cursor.

    Rows without a moment, such as what ships with the service, come first, once each.
    """
    rows = [row for page, _ in pages for row in page]
    timeless = {row["id"]: row for row in rows if not _has_moment(row)}
    ends = [_place(cursor) for _, cursor in pages if cursor]
    frontier = max(ends, default=(0, ""))
    shown = [row for row in rows if _has_moment(row) and place_of(row) >= frontier]
    shown.sort(key=place_of, reverse=True)
    last = frontier if ends else None
    if len(shown) > limit:
        last = place_of(shown[limit - 1])
    cursor = None if last is None else f"{last[0]}.{last[1]}"
    return MergedPage(rows=[*timeless.values(), *shown[:limit]], cursor=cursor)


def anyone(row_id: str) -> str | None:
    """Let every cell show what it has: of jobs no two have the same."""
    return None


def shown_by(cell: str, rows: Sequence[Row], keeper: Keeper) -> Sequence[Row]:
    """Leave out what another cell keeps: an heir has copies of it before it is the keeper."""
    return [row for row in rows if keeper(row["id"]) in (None, cell)]


def cursor_of(page: Row) -> str | None:
    """Read where a page ends; of a page that names the next one by its URL, from that."""
    if next_url := page.get("next"):
        return parse_qs(urlsplit(next_url).query).get("cursor", [None])[0]
    return page.get("cursor")


def place_of(row: Row) -> Moment:
    """Tell where a row stands: its moment is in epoch seconds, or in words."""
    at = row["created_at"]
    at_s = datetime.fromisoformat(at).timestamp() if isinstance(at, str) else at
    return round(at_s * 1000), row["id"]


def _has_moment(row: Row) -> bool:
    return row.get("created_at") is not None


def _place(cursor: str) -> Moment:
    moment, _, name = cursor.partition(".")
    return int(moment), name
