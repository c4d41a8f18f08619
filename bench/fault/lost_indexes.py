"""Delete every index and every list of the store at once, and a worker with them."""

import asyncio

from bench.fault.scenario import Scenario
from storage.redis.connect import ask
from storage.redis.keys import DEADLINES, FINISHED, LEASES, MISSING, OUTBOX, QUEUES

INDEXES = (LEASES, DEADLINES, FINISHED, MISSING, OUTBOX, QUEUES)
FAMILIES = ("waiting:*", "held:*", "tenant:*", "buried:*", "gen.*")
WAITING = 30  #: jobs beyond what the workers hold


class LostIndexes(Scenario):
    """`DEL` of what can be derived from records, while jobs wait, run and end."""

    async def disturb(self) -> None:
        for _ in range(WAITING):
            await self.submit(self.a_job())
        worker = await self.busy_worker()
        await asyncio.sleep(self.random.uniform(0.1, 0.5))
        names = [name for pattern in FAMILIES for name in await ask(self.redis, "KEYS", pattern)]
        process = self.rig.processes[worker]
        process.kill()  # nobody renews its leases, so that they stay lost
        await ask(self.redis, "DEL", *INDEXES, *names)
        process.wait()
        self.rig.worker(worker)
