"""Leave the store without memory for anything new: `maxmemory` below what it holds."""

import asyncio

from bench.fault.scenario import Scenario
from storage.redis.connect import ask

FULL_S, QUICK_S = 20.0, 5.0
WAITING = 20  #: jobs beyond what the workers hold: they are made while nothing new is taken


class FullStore(Scenario):
    """New jobs are refused meanwhile; accepted ones end."""

    async def disturb(self) -> None:
        for _ in range(WAITING):
            await self.submit(self.a_job())
        await ask(self.redis, "CONFIG", "SET", "maxmemory", 1)
        await asyncio.sleep(QUICK_S if self.is_quick else FULL_S)
        await ask(self.redis, "CONFIG", "SET", "maxmemory", 0)
