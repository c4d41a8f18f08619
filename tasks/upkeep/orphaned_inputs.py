"""Delete pictures that were stored for jobs which never came."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from core.log import get_logger
from storage.jobs.submit import LOOK, ExpectedJob
from storage.jobs.sweeps import ROUNDS
from storage.objects.store import ObjectStore

log = get_logger(__name__)

#: A job that has not come for so long never will: whoever submits it has given up long before.
GRACE_S = 600.0


class Notes(Protocol):
    """Tells for which jobs pictures were stored."""

    async def find(self, older_s: float) -> list[ExpectedJob]:
        """Read some notes that are older, each with whether its job came."""

    async def settle(self, expected: Sequence[ExpectedJob]) -> None:
        """Drop notes."""


class OrphanedInputs:
    """Deletes what an api process put into the object store, of whose job nobody knows."""

    def __init__(self, notes: Notes, objects: ObjectStore) -> None:
        self._notes = notes
        self._objects = objects

    async def sweep(self) -> None:
        """Look at what was noted a while ago; what fails between is found again."""
        for _ in range(ROUNDS):
            expected = await self._notes.find(GRACE_S)
            lost = [each for each in expected if not each.has_come]
            keys = [key for each in lost for key in each.keys]
            if keys:
                await asyncio.to_thread(self._objects.delete, keys)
                log.info("inputs_removed", jobs=len(lost), count=len(keys))
            await self._notes.settle(expected)
            if len(expected) < LOOK:
                return
