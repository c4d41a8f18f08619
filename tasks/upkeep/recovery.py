"""Recover jobs: requeue what lost its worker, republish lost messages, rebuild indexes."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable

from core.log import get_logger
from storage.jobs.sweeps import Upkeep

log = get_logger(__name__)

NEVER_S = 1e9
STALE_S = 2.0  #: a queued job without a message for so long is published again
#: A reaper who has not looked for so long may have missed an outage, in which no lease was renewed.
GAP_S = 5.0
#: So long the workers may then beat before their jobs are taken.
GRACE_S = 3.0
#: Records are compared with their indexes, some at a time. Where anything is missing all are,
#: within so long; else a few, now and then, however many there are.
PASS_S = 40.0
REBUILD_S = 0.5
CALM_S = 4.0


class Recovery:
    """Brings back jobs that were lost on the way."""

    def __init__(
        self,
        sweeper: Upkeep,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sweeper = sweeper
        self._clock = clock
        self._sleep = sleep
        self._looked_at = -math.inf  #: when `reap` was last called
        self._reap_from = -math.inf  #: until then workers may still show that they live
        self._calm_from = 0.0  #: until then all records are compared with their indexes
        self._compared_at = -math.inf  #: when some were

    async def reap(self) -> None:
        """Put jobs back whose worker is silent, or bury them; not at once after an outage."""
        if not await self._could_renew():
            return
        reaped = await self._sweeper.reap()
        if reaped.back or reaped.ended:
            log.warning("reaped", back=len(reaped.back), ended=len(reaped.ended))

    async def _could_renew(self) -> bool:
        """Tell whether every worker that lives has been able to renew its leases.

        If the next look comes late as well, it waits for the grace itself: looks that always come
        late would else begin a grace each, and never see the end of one.
        """
        now = self._clock()
        is_late, is_waiting = now - self._looked_at > GAP_S, self._looked_at < self._reap_from
        self._looked_at = now
        if not is_late:
            return now >= self._reap_from
        self._reap_from = now + GRACE_S
        if not is_waiting:
            return False
        await self._sleep(GRACE_S)
        return self._clock() - now <= GAP_S  # else this process stood still meanwhile

    async def republish(self) -> None:
        """Ring again for jobs whose message was lost."""
        back = await self._sweeper.republish(STALE_S)
        if back:
            log.warning("republished", jobs=len(back))

    async def forget_queues(self) -> None:
        """Forget the empty queues of workers that are gone; ring for nothing."""
        await self._sweeper.republish(NEVER_S)

    async def rebuild(self) -> None:
        """Enter into the indexes what records say: of a few records, of all where one lacked it."""
        now = self._clock()
        is_calm = now >= self._calm_from
        if is_calm and now < self._compared_at + CALM_S:
            return
        self._compared_at = now
        missing = await self._sweeper.rebuild(0.0 if is_calm else REBUILD_S / PASS_S)
        if missing:
            self._calm_from = now + 2 * PASS_S
            log.warning("indexes_rebuilt", entries=missing)
