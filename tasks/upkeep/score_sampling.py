"""Sample finished jobs for scoring; fewer when the CPU workers are behind."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from storage.jobs.sweeps import Finished

LOOK = 500  #: finished jobs looked at in one round; of more, the latest
AT_ONCE = 16  #: jobs scored by one task


class Ended(Protocol):
    """Finds jobs that have just ended."""

    async def __call__(self, since: float, limit: int) -> Sequence[Finished]: ...


class Sampling:
    """Has a share of finished jobs scored. What does not fit is let go."""

    def __init__(
        self,
        share: float,
        *,
        find: Ended,
        waiting: Callable[[], Awaitable[int]],
        send: Callable[[Sequence[str]], None],
    ) -> None:
        self._share = share
        self._find = find
        self._waiting = waiting  #: counts the tasks that no CPU worker has taken yet
        self._send = send
        self._since: float | None = None  #: epoch s: when the last job ended that was looked at

    async def run(self) -> None:
        """Look at the jobs that have ended since the last round; at the first, only note when."""
        if self._share <= 0:
            return
        is_first = self._since is None
        found = await self._find(self._since or 0.0, 1 if is_first else LOOK)
        self._since = found[0].at if found else self._since or 0.0
        chosen = [job.id for job in found if is_sampled(job.id, self._share)][:AT_ONCE]
        if chosen and not is_first and not await self._waiting():
            await asyncio.to_thread(self._send, chosen)


def is_sampled(job_id: str, share: float) -> bool:
    """Tell whether a job is one of a share; whoever asks is told the same."""
    number = int.from_bytes(hashlib.sha256(job_id.encode()).digest()[:8], "big")
    return number < share * 2**64
