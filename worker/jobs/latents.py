"""Store reusable latents of finished jobs, in a background thread.

Best effort: nothing here touches a job. Where the store is slow, what comes is dropped.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from queue import Full, Queue
from typing import Protocol

from core.job import Job
from core.latents import Lender, latents_key
from core.log import get_logger, log_errors
from core.telemetry import metrics
from core.traits import latent_key
from worker.engine.slot import JobImages

log = get_logger(__name__)

#: Jobs whose latents wait to be stored; more are dropped.
MAX_WAITING = 16
#: How long a shutdown waits for the ones on their way.
CLOSE_S = 2.0


class LatentStore(Protocol):
    """What is needed of the processes that store things."""

    def put_latents(self, key: str, data: bytes) -> "Future[None]":
        """Store the latents of one job at one K."""

    def delete(self, keys: Sequence[str]) -> None:
        """Take back what was stored of a job."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Leftovers:
    """What one finished job has left behind."""

    job: Job
    made: JobImages
    made_at: float  #: epoch s


class LatentWriter:
    """Stores latents, one job's after the other's, in a thread of its own."""

    def __init__(
        self,
        *,
        store: LatentStore,
        announce: Callable[[Lender], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._announce = announce
        self._clock = clock
        self._waiting: Queue[Leftovers | None] = Queue(MAX_WAITING)
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="lending", daemon=True)

    def start(self) -> None:
        """Start the thread that stores latents."""
        self._thread.start()

    def offer(self, job: Job, made: JobImages) -> None:
        """Take what a delivered job has left, if it has, and if there is room. Never waits."""
        if not made.left:
            return
        try:
            self._waiting.put_nowait(Leftovers(job=job, made=made, made_at=self._clock()))
        except Full:
            metrics.latents_left.labels("dropped").inc()

    def close(self) -> None:
        """Drop what waits, and end once the object on its way is stored, or after `CLOSE_S`."""
        self._is_closed = True
        with suppress(Full):  # full, it wakes anyway
            self._waiting.put_nowait(None)
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while (left := self._waiting.get()) is not None and not self._is_closed:
            with log_errors(log, "latents_not_kept", job=left.job.id):
                self._keep(left)
                continue
            metrics.latents_left.labels("failed").inc()

    def _keep(self, left: Leftovers) -> None:
        """Store all of them, then say so; or none, as of a job that is deleted meanwhile."""
        job, num_bytes = left.job, 0
        keys: list[str] = []
        with ExitStack() as undo:
            undo.callback(self._store.delete, keys)
            for skip, kept in left.made.left.items():
                data = kept.write()
                keys.append(latents_key(job.tenant, job.id, skip))
                self._store.put_latents(keys[-1], data).result()  # so that images come between
                num_bytes += len(data)
            is_kept = self._announce(_lender(left, num_bytes))
            if is_kept:
                undo.pop_all()
        metrics.latents_left.labels("kept" if is_kept else "dropped").inc()


def _lender(left: Leftovers, num_bytes: int) -> Lender:
    job = left.job
    return Lender(
        id=job.id,
        tenant=job.tenant,
        prompt=job.request.prompt,
        terms=latent_key(job.request),
        skips=tuple(left.made.left),
        num_bytes=num_bytes,
        made_at=left.made_at,
    )
