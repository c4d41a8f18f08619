"""Stop the CPU processes of a worker, and kill those of another three times in a row."""

import asyncio

import psutil

from bench.fault.scenario import Scenario

KILLS = 3


class LostEncoders(Scenario):
    """What encodes and stores images dies, comes back, dies again, and hangs at last."""

    async def disturb(self) -> None:
        for _ in range(1 if self.is_quick else 3):
            worker = await self.busy_worker()
            for _ in range(KILLS):
                await self._kill(worker)
        for process in self._encoders(await self.busy_worker()):
            process.suspend()
        await asyncio.sleep(3.0)  # jobs come meanwhile

    async def _kill(self, worker: str) -> None:
        """Kill the CPU processes of a worker, and wait for the next ones."""
        processes = self._encoders(worker)
        for process in processes:
            process.kill()
        while not set(self._encoders(worker)) - set(processes):
            await asyncio.sleep(0.05)

    def _encoders(self, worker: str) -> list[psutil.Process]:
        children = psutil.Process(self.rig.processes[worker].pid).children()
        return [each for each in children if _is_encoder(each)]


def _is_encoder(process: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False
