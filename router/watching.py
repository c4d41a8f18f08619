"""Look at every cell once a second: does it answer, is it ready, what can it do."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import aiohttp
import msgspec

from core.cells.capacity import CellCapacity
from core.log import get_logger
from router.cells import Cells
from router.proxy import is_full

#: Seconds between two looks, that one may take, and looks in vain after which a cell is away.
LOOK_EVERY_S: Final = 1.0
LOOK_S: Final = 2.0
PATIENCE: Final = 2

log = get_logger(__name__)


class CellHealth(StrEnum):
    """What was last seen of a cell."""

    READY = "ready"  #: it makes images
    ANSWERS = "answers"  #: it can be asked of what it has, and makes no images now
    AWAY = "away"  #: nobody answers there


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCell:
    """One cell as it was last seen."""

    health: CellHealth = CellHealth.AWAY
    capacity: CellCapacity | None = None  #: as it last published it; None: never
    failures: int = PATIENCE  #: looks in a row that nobody answered


class ReadyAnswer(msgspec.Struct):
    """What `/readyz` says."""

    cell: str | None = None
    capacity: CellCapacity | None = None


class CellWatch:
    """What is known of every cell, by name."""

    def __init__(self, http: aiohttp.ClientSession, cells: Callable[[], Cells]) -> None:
        self._http = http
        self._cells = cells
        self.seen: dict[str, SeenCell] = {}

    async def look(self) -> None:
        """Look at each cell once, at all at the same time."""
        cells = self._cells()
        looks = (self._look(name, cell.url) for name, cell in cells.items())
        found = await asyncio.gather(*looks)
        seen = dict(zip(cells, found, strict=True))
        for name, now in seen.items():
            before = self.seen.get(name, SeenCell())
            if now.health is not before.health:
                log.info("cell_seen", cell=name, health=now.health.value)
        self.seen = seen

    def note_away(self, name: str) -> None:
        """Take a cell that refused a connection to be away, until the next look."""
        if name in self.seen:
            self.seen[name] = replace(self.seen[name], health=CellHealth.AWAY, failures=PATIENCE)

    async def _look(self, name: str, url: str) -> SeenCell:
        before = self.seen.get(name, SeenCell())
        try:
            async with self._http.get(
                f"{url}/readyz", timeout=aiohttp.ClientTimeout(total=LOOK_S)
            ) as response:
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if is_full(error):  # of that we know nothing
                return before
            failures = before.failures + 1
            health = CellHealth.AWAY if failures >= PATIENCE else before.health
            return replace(before, health=health, failures=failures)
        return _seen(name, before, response.status, body)


def _seen(name: str, before: SeenCell, status: int, body: bytes) -> SeenCell:
    """Read an answer; one of another cell is of none: ids would not be found there."""
    try:
        answer = msgspec.json.decode(body, type=ReadyAnswer)
    except (msgspec.MsgspecError, UnicodeError):
        answer = ReadyAnswer()
    if status == 200 and answer.cell != name:
        log.warning("cell_is_another", cell=name, answers=answer.cell)
        return SeenCell()
    health = CellHealth.READY if status == 200 else CellHealth.ANSWERS
    return SeenCell(health=health, capacity=answer.capacity or before.capacity, failures=0)
