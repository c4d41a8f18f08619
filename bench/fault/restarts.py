"""Kill the Redis that compose.yaml configures, and start it again: Debian's, or the wheel's."""

import asyncio
import shutil
from pathlib import Path

from bench.fault.scenario import Scenario
from tests.compose_store import compose_store
from tests.servers import Server


class Restarts(Scenario):
    """kill -9 of a store under compose's command and ACL, several times."""

    @staticmethod
    def start_store(folder: Path) -> Server:
        return compose_store(folder, "redis-server" if shutil.which("redis-server") else "wheel")

    async def disturb(self) -> None:
        for _ in range(2 if self.is_quick else 5):
            await self.busy_worker()
            await asyncio.sleep(self.random.uniform(0.5, 2.0))
            await asyncio.to_thread(self.rig.redis.kill)
            await asyncio.sleep(self.random.uniform(0.05, 1.0))
            await asyncio.to_thread(self.rig.redis.start)
