"""Delete latents that nothing leads to any more: the index forgets them sooner than this."""

import asyncio
import time
from collections.abc import Callable

from core.latents import LATENTS
from core.log import get_logger
from storage.objects.store import ObjectStore

log = get_logger(__name__)

#: Latents outlive their lender in the index by so long, at least: whoever keeps it may be late.
GRACE_S = 600.0


class OldLatents:
    """Sweeps what no index holds: there is none, or it was lost, or never told."""

    def __init__(
        self, *, objects: ObjectStore, ttl_s: float, clock: Callable[[], float] = time.time
    ) -> None:
        """Prepare; an index lets go of latents after `ttl_s`."""
        self._objects = objects
        self._ttl_s = ttl_s
        self._clock = clock

    async def sweep(self) -> None:
        """Look once at all latents, and delete the old ones."""
        gone = await asyncio.to_thread(self._delete_old)
        if gone:
            log.info("old_latents_removed", count=gone)

    def _delete_old(self) -> int:
        since = self._clock() - self._ttl_s - GRACE_S
        old = [each.key for each in self._objects.list(LATENTS) if each.modified_at < since]
        if old:
            self._objects.delete(old)
        return len(old)
