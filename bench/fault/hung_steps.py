"""Let a step of a worker never end: its jobs go to others, and it is started anew."""

import asyncio

from bench.fault.scenario import Scenario
from tests.slow import HANG
from worker.process.engine_exit import HUNG_ENGINE


class HungSteps(Scenario):
    """Forward passes that sleep for ever, while the rest of their process goes on."""

    patience_s = 150.0
    pause_s = 0.4

    async def disturb(self) -> None:
        """Let one step after another hang; the last is still to be noticed on return."""
        await asyncio.sleep(3.0)  # workers learn what a step takes
        for number in range(1 if self.is_quick else 3):
            while self.findings.deaths < number:
                self.supervise()
                await asyncio.sleep(0.1)
            hang = self.rig.folder / "data" / HANG
            hang.touch()
            while hang.exists():
                await asyncio.sleep(0.05)

    def supervise(self) -> None:
        """Restart the workers that ended because they hung: another end is a finding."""
        for name in self.workers:
            if self.rig.processes[name].poll() == HUNG_ENGINE:
                self.findings.deaths += 1
                self.rig.worker(name)
        super().supervise()
