"""Submit poisonous jobs among innocent ones: a step of theirs kills its worker with SIGKILL."""

import asyncio
from signal import SIGKILL

from bench.fault.scenario import Scenario
from core.job import JobStatus
from storage.jobs.submit import NewJob
from tests.rig import DEADLY, POISON, new_job

ATTEMPTS = 3


class Poison(Scenario):
    """Jobs that kill their workers, beside innocents: they alone are buried."""

    models = (DEADLY,)
    env = {"ATELIER_MAX_ATTEMPTS": str(ATTEMPTS), "ATELIER_MAX_SLOTS": "16"}
    steps = (10, 60)
    pause_s = 0.4

    async def disturb(self) -> None:
        """Queue sixteen jobs at once, and replace workers until the poisonous are buried."""
        poisons = 1 if self.is_quick else 2
        seeds = [POISON] * poisons + [1] * (16 - poisons)
        self.random.shuffle(seeds)
        for seed in seeds:
            job = new_job(model="deadly", steps=self.random.randint(*self.steps), seed=seed)
            await self.submit(job)
            if seed == POISON:
                self.guilty.add(job.id)
        while not all([await self._is_buried(job_id) for job_id in self.guilty]):
            self.supervise()
            await asyncio.sleep(0.1)
        most = poisons * (1 + ATTEMPTS)
        assert self.findings.deaths <= most, f"{self.findings.deaths} deaths of {poisons} poisons"

    def supervise(self) -> None:
        """Restart the workers that were killed; one that ended otherwise is a finding."""
        for name in self.workers:
            if self.rig.processes[name].poll() == -SIGKILL:
                self.findings.deaths += 1
                self.rig.worker(name)
        super().supervise()

    def a_job(self) -> NewJob:
        return new_job(model="deadly", steps=self.random.randint(*self.steps))

    async def _is_buried(self, job_id: str) -> bool:
        job = await self.store.get(job_id)
        assert job.status is not JobStatus.SUCCEEDED, "the poison does not kill"
        return job.failure is not None and job.failure.type == "attempts_exhausted"
