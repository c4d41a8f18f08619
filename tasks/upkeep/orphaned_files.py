"""Garbage-collect LoRA and ControlNet files that have no record."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Protocol

from core.log import get_logger
from storage.objects.store import ObjectStore

log = get_logger(__name__)


class Records(Protocol):
    """Tells what is kept."""

    async def known(self, ids: Sequence[str]) -> set[str]:
        """Name those of these ids that have a record."""


class OrphanedFiles:
    """Deletes the files of adapters that were deleted, or never came to have a record."""

    def __init__(
        self,
        *,
        folder: str,
        objects: ObjectStore,
        records: Records,
        grace_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; a file stays for `grace_s` after it was first seen without a record."""
        self._folder = folder
        self._objects = objects
        self._records = records
        self._grace_s = grace_s
        self._clock = clock
        self._since: dict[str, float] = {}  #: key of a file without a record -> when first seen

    async def sweep(self) -> None:
        """Look once at all files, and delete what has been without a record for long."""
        ids = await asyncio.to_thread(self._files)
        known = await self._records.known(list(ids.values()))
        now = self._clock()
        stray = [key for key, kept_id in ids.items() if kept_id not in known]
        self._since = {key: self._since.get(key, now) for key in stray}
        late = [key for key, since in self._since.items() if now - since >= self._grace_s]
        if late:
            await asyncio.to_thread(self._objects.delete, late)
            log.info("kept_files_removed", folder=self._folder, count=len(late))

    def _files(self) -> dict[str, str]:
        """Map the key of each file to the id of what it belongs to."""
        return {each.key: PurePosixPath(each.key).stem for each in self._objects.list(self._folder)}
