"""What do the workers report? Read twice a second, for whoever sends edits to them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial

from redis.asyncio import Redis

from core.errors import Unavailable
from core.fleet import Worker
from core.log import get_logger
from core.settings import Settings
from scheduler.batches import Batches
from scheduler.burden import step_costs
from scheduler.dispatch import Dispatcher
from scheduler.profile import Profile
from storage.fleet import read_fleet

POLL_S = 0.5

log = get_logger(__name__)


class Reports:
    """Passes what workers report on to their batches. Every scheduler reads, leader or not."""

    def __init__(
        self,
        batches: Batches,
        read: Callable[[], Awaitable[Sequence[Worker]]],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._batches = batches
        self._read = read
        self._clock = clock

    async def run(self) -> None:
        """Read until cancelled. While the store is away, what is known grows stale."""
        while True:
            await self.look()
            await asyncio.sleep(POLL_S)

    async def look(self) -> None:
        """Read once."""
        try:
            self._batches.see(await self._read(), self._clock())
        except Unavailable as error:
            log.debug("reports_not_read", reason=str(error))
        except Exception:
            log.exception("reports_not_understood")


def open_dispatch(settings: Settings, profile: Profile, redis: Redis) -> tuple[Dispatcher, Reports]:
    """Join the routing of edits to what workers report."""
    batches = Batches(cache(partial(step_costs, profile)), stale_s=settings.worker_stale_s)
    read = partial(read_fleet, redis, settings.worker_stale_s)
    return Dispatcher(batches, settings.edit_routing), Reports(batches, read)
