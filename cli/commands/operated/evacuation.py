"""Evacuate a cell: drained, what is kept handed over, and its jobs waited for."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from core.errors import ConfigurationError
from core.settings import ObjectBackend, Settings
from router.cells import Cells, CellState, parse_cells
from storage.jobs.left import WorkLeft, count_work_left
from storage.objects.store import open_objects
from storage.redis.connect import connect
from storage.tenants.evacuation import KeptThings, copy_kept

LOOK_EVERY_S: Final = 2.0
#: Routers read their file once a second, and end what they have at hand: a cell is empty when for
#: so long nothing was left and nothing came.
QUIET_S: Final = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evacuation:
    """How far the evacuation of a cell has come."""

    cell: str
    heir: str  #: the cell that takes over what tenants keep
    left: WorkLeft
    copied: int = 0  #: things that tenants keep, by this run
    unreadable: tuple[str, ...] = ()  #: ids of things whose object is missing
    read_until: float = 0.0  #: epoch s: so long its jobs may be asked for; 0: it is not empty yet


async def evacuate_cell(
    leaving: Settings, heir: Settings, file: Path, tell: Callable[[Evacuation], None]
) -> Evacuation:
    """Take a cell out of service; return when it has nothing left to do.

    What is kept is copied twice: most of it while the cell still answers for it, and the rest when
    routers ask the heir.

    Raises:
        ConfigurationError: these are no two cells of the file, it names another heir or cannot be
            changed, or nothing of what is kept can be read.
        Unavailable: a store cannot serve now; run it again.
    """
    check(leaving, heir, parse_cells(file.read_bytes()))
    async with _opened(leaving) as here, _opened(heir) as there:
        left = await count_work_left(here.redis)
        now = Evacuation(cell=leaving.cell, heir=heir.cell, left=left)
        change(file, leaving.cell, state=CellState.DRAINING)
        now = await _look(now, here, there)
        tell(now)
        change(file, leaving.cell, heir=heir.cell)
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < QUIET_S:
            await asyncio.sleep(LOOK_EVERY_S)
            before, now = now, await _look(now, here, there)
            if now != before:
                tell(now)
            if now.copied != before.copied or not now.left.is_none:
                quiet_since = time.monotonic()
    return replace(now, read_until=time.time() + leaving.retention_s)


async def _look(now: Evacuation, here: KeptThings, there: KeptThings) -> Evacuation:
    report = await copy_kept(here, there)
    if report.unreadable and not report.is_begun:
        raise ConfigurationError(_unreadable(here.cell, len(report.unreadable)))
    left = await count_work_left(here.redis)
    copied = now.copied + report.copied
    return replace(now, left=left, copied=copied, unreadable=report.unreadable)


def _unreadable(cell: str, count: int) -> str:
    return (
        f"none of the {count} things that tenants keep in {cell} has its object where its "
        f"environment says (ATELIER_OBJECT_BACKEND, ATELIER_DATA_DIR, ATELIER_S3_*): nothing is "
        "handed over. Where they are lost, delete those things, and run this again"
    )


def change(file: Path, name: str, **facts: str) -> None:
    """Write something else of one cell into the file, as a whole or not at all.

    Raises:
        ConfigurationError: it cannot be written; the message says what to write there.
    """
    cells = json.loads(file.read_bytes())
    if cells[name] == cells[name] | facts:
        return
    cells[name] |= facts
    text = json.dumps(cells, indent=2) + "\n"
    parse_cells(text.encode())
    beside = file.with_name(f".{file.name}.new")
    try:
        beside.write_text(text)
        os.replace(beside, file)
    except OSError as error:
        said = json.dumps({name: cells[name]})
        detail = f"cannot be written ({error.strerror}): write {said} there, and run this again"
        raise ConfigurationError(f"{file}: {detail}") from error


def check(leaving: Settings, heir: Settings, cells: Cells) -> None:
    """Refuse what are no two cells of the file, or of which the first has another heir.

    Raises:
        ConfigurationError: the message says what to change.
    """
    for settings in (leaving, heir):
        if settings.cell not in cells:
            known = ", ".join(cells)
            raise ConfigurationError(f"ATELIER_CELL: {settings.cell!r} is none of {known}")
    if leaving.cell == heir.cell or leaving.redis_url == heir.redis_url:
        raise ConfigurationError("a cell cannot take over from itself: name two, and their stores")
    named = cells[leaving.cell].heir
    if named not in (None, heir.cell):
        raise ConfigurationError(f"{leaving.cell} has an heir, {named}: no other can take over")
    if cells[heir.cell].state is not CellState.OPEN:
        raise ConfigurationError(f"{heir.cell} is {cells[heir.cell].state}: only an open cell can")
    if (place := _place(leaving)) == _place(heir):
        raise ConfigurationError(f"{place} is both cells': name two")


def _place(settings: Settings) -> str:
    """Say where a cell's objects are, with what names it."""
    if settings.object_backend is ObjectBackend.S3:
        return f"ATELIER_S3_BUCKET: {settings.s3_bucket} at {settings.s3_endpoint.lower()}"
    return f"ATELIER_DATA_DIR: {settings.data_dir.resolve()}"


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[KeptThings]:
    redis = connect(settings.redis_url)
    try:
        yield KeptThings(cell=settings.cell, redis=redis, objects=open_objects(settings))
    finally:
        await redis.aclose()
