"""Run periodic chores while this process leads, one failure at a time."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from core.errors import Unavailable
from core.log import get_logger, log_errors
from storage.boards.fleet import Leads

log = get_logger(__name__)

MAX_TICK_S = 2.0  #: between two renewals of the lead


@dataclass(slots=True, kw_only=True)
class Chore:
    """Something the leader does again and again."""

    name: str
    every_s: float
    run: Callable[[], Awaitable[object]]
    due_at: float = 0.0  #: monotonic s


class ChoreRunner:
    """Does the chores of one matter, one after another, while it leads in that."""

    def __init__(self, leadership: Leads, chores: Sequence[Chore]) -> None:
        self._leadership = leadership
        self._chores = chores
        self._tick_s = min([MAX_TICK_S, *(chore.every_s for chore in chores)])
        self._is_stopped = asyncio.Event()

    def stop(self) -> None:
        self._is_stopped.set()

    async def run(self) -> None:
        """Lead if nobody does, and work while leading, until `stop`."""
        while not self._is_stopped.is_set():
            try:
                await self.turn(time.monotonic())
            except Unavailable as error:
                log.warning("not_leading", reason=str(error))
            try:
                await asyncio.wait_for(self._is_stopped.wait(), self._tick_s)
            except TimeoutError:
                continue
        await self._resign()

    async def turn(self, now: float) -> None:
        """Do what is due, if we lead."""
        if await self._leadership.acquire() is None:
            return
        for chore in self._chores:
            if now >= chore.due_at:
                chore.due_at = now + chore.every_s
                with log_errors(log, "chore_failed", chore=chore.name):
                    await chore.run()

    async def _resign(self) -> None:
        try:
            await self._leadership.release()
        except Unavailable as error:
            log.warning("not_resigned", reason=str(error))
