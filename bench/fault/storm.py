"""Kill workers and Redis, and stall workers past their leases, in an order drawn from a seed."""

import asyncio
from signal import SIGCONT, SIGSTOP

from bench.fault.scenario import LEASE_S, Scenario


class Storm(Scenario):
    """kill -9 of workers, SIGSTOP past the lease, kill -9 of Redis."""

    _done = 0  #: faults so far

    @property
    def jobs(self) -> int:
        return 60 if self.is_quick else 300

    @property
    def plan(self) -> list[str]:
        kills, stalls, redis = (4, 1, 1) if self.is_quick else (20, 3, 5)
        return ["kill"] * kills + ["stall"] * stalls + ["redis"] * redis

    async def feed(self) -> None:
        """Spread the jobs over the faults, so that each fault finds some under way."""
        count = len(self.plan)
        for number in range(self.jobs):
            while number * (count + 1) > (self._done + 1) * self.jobs:
                await asyncio.sleep(0.02)
            await self.submit(self.a_job())
            await asyncio.sleep(self.random.uniform(0.0, 0.1))

    async def disturb(self) -> None:
        plan = self.plan
        self.random.shuffle(plan)
        for fault in plan:
            await asyncio.sleep(self.random.uniform(0.5, 2.0))
            self.supervise()
            worker = await self.busy_worker()
            if fault == "kill":
                self._kill(worker)
            elif fault == "stall":
                await self._stall(worker)
            else:
                await self._kill_redis()
            self._done += 1

    def _kill(self, worker: str) -> None:
        process = self.rig.processes[worker]
        process.kill()
        process.wait()
        self.rig.worker(worker)

    async def _stall(self, worker: str) -> None:
        process = self.rig.processes[worker]
        process.send_signal(SIGSTOP)
        await asyncio.sleep(LEASE_S * 2)
        process.send_signal(SIGCONT)

    async def _kill_redis(self) -> None:
        await asyncio.to_thread(self.rig.redis.kill)
        await asyncio.sleep(self.random.uniform(0.05, 1.0))
        await asyncio.to_thread(self.rig.redis.start)
