"""Which LoRA files does nobody need any more? Those without a record, once jobs have ended."""

import asyncio
import time
from collections.abc import Callable
from pathlib import PurePosixPath

from core.log import get_logger
from core.lora import LORAS, Lora
from storage.objects import ObjectStore
from storage.uploads import Uploads

log = get_logger(__name__)


class LoraFiles:
    """Deletes the files of LoRAs that were deleted, or never came to have a record."""

    def __init__(
        self,
        *,
        objects: ObjectStore,
        loras: Uploads[Lora],
        grace_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; a file stays for `grace_s` after it was first seen without a record."""
        self._objects = objects
        self._loras = loras
        self._grace_s = grace_s
        self._clock = clock
        self._since: dict[str, float] = {}  #: key of a file without a record -> when first seen

    async def sweep(self) -> None:
        """Look once at all files, and delete what has been without a record for long."""
        ids = await asyncio.to_thread(self._files)
        known = await self._loras.known(list(ids.values()))
        now = self._clock()
        stray = [key for key, lora_id in ids.items() if lora_id not in known]
        self._since = {key: self._since.get(key, now) for key in stray}
        late = [key for key, since in self._since.items() if now - since >= self._grace_s]
        if late:
            await asyncio.to_thread(self._objects.delete, late)
            log.info("lora_files_removed", count=len(late))

    def _files(self) -> dict[str, str]:
        """Map the key of each file to the id of its LoRA."""
        return {each.key: PurePosixPath(each.key).stem for each in self._objects.list(LORAS)}
