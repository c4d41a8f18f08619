"""Poll worker reports and queue depths twice a second for load-aware routing."""

import asyncio
import time
from collections.abc import Callable, Sequence

from core.boards.fleet import QueueDepth, Worker
from core.errors import Unavailable
from core.log import get_logger, log_errors
from scheduler.planning.protocols import Fleet

POLL_S = 0.5

#: Takes in the reports of all workers, the depths of all queues, and when they were read (s).
Hear = Callable[[Sequence[Worker], Sequence[QueueDepth], float], object]

log = get_logger(__name__)


class Reports:
    """Passes on what is reported. Every scheduler reads, leader or not.

    The leader's `PlanLoop` reads for itself: its round waits for the solver, and must fail while
    the store is away, where this goes on with what it knows.
    """

    def __init__(self, fleet: Fleet, hear: Hear, *, clock: Callable[[], float] = time.time) -> None:
        self._fleet = fleet
        self._hear = hear
        self._clock = clock

    async def run(self) -> None:
        """Read until cancelled. While the store is away, what is known grows stale."""
        while True:
            await self.look()
            await asyncio.sleep(POLL_S)

    async def look(self) -> None:
        """Read once."""
        with log_errors(log, "reports_not_understood"):
            try:
                workers, depths = await self._fleet.workers(), await self._fleet.depths()
                self._hear(workers, depths, self._clock())
            except Unavailable as error:
                log.debug("reports_not_read", reason=str(error))
