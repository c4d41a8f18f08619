"""Garbage-collect files of what is gone: adapters without a record, states of ended jobs."""

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
        """Name those of these ids that files are kept for."""


def stem_of(key: str) -> str:
    """Give the id of what a file belongs to that is named after it."""
    return PurePosixPath(key).stem


class OrphanedFiles:
    """Deletes the files of what was deleted, has ended, or never came to have a record."""

    def __init__(
        self,
        *,
        folder: str,
        objects: ObjectStore,
        records: Records,
        grace_s: float,
        id_of: Callable[[str], str] = stem_of,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; a file stays for `grace_s` after it was first seen without a record.

        `id_of` says what a file belongs to, by its key.
        """
        self._folder = folder
        self._objects = objects
        self._records = records
        self._grace_s = grace_s
        self._id_of = id_of
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
        return {each.key: self._id_of(each.key) for each in self._objects.list(self._folder)}
