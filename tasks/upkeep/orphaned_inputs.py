"""Delete pictures that were stored for jobs which never came."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from core.errors import ObjectsUnavailable
from core.log import get_logger
from storage.jobs.submit import LOOK, ExpectedJob
from storage.jobs.sweeps import ROUNDS
from storage.objects.store import ObjectStore

log = get_logger(__name__)

#: A job that has not come for so long never will: whoever submits it has given up long before.
GRACE_S = 600.0


class Notes(Protocol):
    """Tells for which jobs pictures were stored."""

    async def find(self, older_s: float, after: str = "") -> list[ExpectedJob]:
        """Read some notes that are older and follow one, each with whether its job came."""

    async def settle(self, expected: Sequence[ExpectedJob]) -> None:
        """Drop notes."""


class OrphanedInputs:
    """Deletes what an api process put into the object store, of whose job nobody knows."""

    def __init__(self, notes: Notes, objects: ObjectStore) -> None:
        self._notes = notes
        self._objects = objects
        #: The note that was tried last: one that fails again and again holds up none behind it.
        self._tried = ""

    async def sweep(self) -> None:
        """Look at what was noted a while ago; what fails between is found again.

        Raises:
            ObjectsUnavailable: a picture cannot be deleted now; the next sweep begins behind it.
        """
        lost = sorted(await self._lost(), key=lambda each: each.note <= self._tried)
        for begin in range(0, len(lost), LOOK):
            together = lost[begin : begin + LOOK]
            try:
                await self._delete(together)
            except ObjectsUnavailable:
                for each in together:
                    self._tried = each.note
                    await self._delete([each])

    async def _delete(self, lost: Sequence[ExpectedJob]) -> None:
        keys = [key for each in lost for key in each.keys]
        await asyncio.to_thread(self._objects.delete, keys)
        await self._notes.settle(lost)
        log.info("inputs_removed", jobs=len(lost), count=len(keys))

    async def _lost(self) -> list[ExpectedJob]:
        """Find notes of jobs that never came; drop those of jobs that did."""
        lost: list[ExpectedJob] = []
        after = ""
        for _ in range(ROUNDS):
            expected = await self._notes.find(GRACE_S, after)
            await self._notes.settle([each for each in expected if each.has_come])
            lost += [each for each in expected if not each.has_come]
            if len(expected) < LOOK:
                break
            after = expected[-1].note
        return lost
