"""Count what became of the jobs of one scenario: lost, ended twice, stale, broken, stuck."""

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from redis.asyncio import Redis

from core.errors import NotFound
from core.job import Job, JobStatus
from storage.jobs.jobs import JobStore
from storage.redis.connect import ask
from storage.redis.keys import job_key


@dataclass(slots=True, kw_only=True)
class Findings:
    """What had become of the jobs in the end."""

    accepted: int = 0
    lost: int = 0  #: accepted, but no record
    stuck: int = 0  #: without an end
    ended_again: int = 0  #: more than one transition to a terminal status
    innocents_failed: int = 0  #: not succeeded, though not guilty of anything
    stale: int = 0  #: published images that are not those of the last claim
    broken: int = 0  #: published images whose bytes are not what the record says
    worker_exits: int = 0  #: without our doing
    deaths: int = 0  #: of workers, by what the jobs of the scenario do
    contradictions: int = 0  #: between records, indexes and lists
    recovery_s: float = 0.0  #: from the end of the fault until all jobs accepted by then had ended
    seconds: float = 0.0  #: of the whole scenario
    statuses: Counter[str] = field(default_factory=Counter)
    stats: dict[str, int] = field(default_factory=dict)


class Counting:
    """Reads records and published images, and adds up what is wrong with them."""

    def __init__(self, redis: Redis, objects: Path, found: Findings) -> None:
        """Prepare; the directory store lies in `objects`."""
        self._redis = redis
        self._store = JobStore(redis, max_queue=0)
        self._objects = objects
        self._found = found

    async def count(self, ids: Sequence[str], guilty: Collection[str]) -> None:
        """Count all jobs that were accepted."""
        self._found.accepted = len(ids)
        for job_id in ids:
            try:
                job = await self._store.get(job_id)
            except NotFound:
                self._found.lost += 1
            else:
                await self._count_one(job, is_guilty=job_id in guilty)

    async def _count_one(self, job: Job, *, is_guilty: bool) -> None:
        found = self._found
        found.statuses[job.status] += 1
        found.stuck += not job.status.is_terminal
        found.innocents_failed += job.status is not JobStatus.SUCCEEDED and not is_guilty
        found.ended_again += int(await ask(self._redis, "HGET", job_key(job.id), "finishes")) > 1
        for image in job.images:
            found.stale += f"/{job.id}/{job.fence}/" not in image.key
            path = self._objects / image.key
            found.broken += not (path.is_file() and _digest(path) == image.sha256)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
