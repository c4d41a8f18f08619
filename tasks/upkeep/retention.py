"""Delete the images of old jobs, then their records; trim shared recordings to their budget."""

import asyncio
from collections.abc import Mapping, Sequence

from core.log import get_logger
from storage.jobs.sweeps import ROUNDS, Old, Upkeep
from storage.objects import recordings
from storage.objects.store import ObjectStore

log = get_logger(__name__)


class Retention:
    """Keeps nothing longer, and no more of it, than was allowed."""

    def __init__(self, sweeper: Upkeep, objects: ObjectStore) -> None:
        self._sweeper = sweeper
        self._objects = objects
        self._looked_at: dict[str, int] = {}  #: jobs of tenants with more than one run looks at

    async def retain(self, retention_s: float) -> None:
        """Delete the images of old jobs, then forget these: what fails between is found again."""
        for _ in range(ROUNDS):
            old = await self._sweeper.find_old(retention_s)
            if not old:
                return
            await self._delete(old)

    async def retain_own(self, retention_s: Mapping[str, float]) -> None:
        """Do the same for tenants whose jobs are kept for a time of their own (s)."""
        for tenant, own_s in retention_s.items():
            skip = self._looked_at.pop(tenant, 0)
            for _ in range(ROUNDS):
                looked, old = await self._sweeper.find_old_of(tenant, own_s, skip)
                if not looked:
                    break
                await self._delete(old)
                skip += looked - len(old)
            else:  # what has not ended may be before what has
                self._looked_at[tenant] = skip

    async def _delete(self, old: Sequence[Old]) -> None:
        if old:
            await asyncio.to_thread(self._objects.delete, [k for job in old for k in job.keys])
            await self._sweeper.forget([job.id for job in old])


async def trim(objects: ObjectStore, budget_bytes: int) -> None:
    """Keep no more of templates in the object store than was allowed."""
    gone = await asyncio.to_thread(recordings.trim, objects, budget_bytes)
    if gone:
        log.info("recordings_removed", count=gone)
