"""Prefetch activations and LoRAs of jobs that wait at the heads of the queues.

While a worker has room nothing waits for it, as what comes is claimed at once: nothing is asked.
LoRAs are asked for as far as half the memory for them goes, those of the first jobs first: more
would push each other, and those of running jobs, out before anybody uses them.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator

import redis

from core.errors import Unavailable
from core.job import JobRequest
from core.log import get_logger, log_errors
from storage.jobs.waiting import Waiting, peek

log = get_logger(__name__)

#: Seconds between two looks at the queues.
PERIOD_S = 1.0
#: Jobs looked at on each queue: others come later.
DEPTH = 16


class Prefetcher:
    """Looks at the heads of the queues that one worker serves, in a thread of its own."""

    def __init__(
        self,
        client: redis.Redis,
        *,
        queues: Callable[[], Collection[str]],
        prefetch: Callable[[JobRequest], object],
        recall: Callable[[JobRequest], object] = lambda request: None,
        loras_bytes: int = 0,
        is_full: Callable[[], bool] = lambda: True,
        survey: Callable[[], object] = lambda: None,
    ) -> None:
        """Prepare to look; `survey` is called beside each look, and may take a while too.

        `recall` has at hand what an edit reuses whose LoRAs have no room; `loras_bytes`: memory for
        LoRAs; `is_full`: whether this worker claims nothing more now.
        """
        self._client = client
        self._queues = queues
        self._prefetch = prefetch
        self._recall = recall
        self._loras_bytes = loras_bytes
        self._is_full = is_full
        self._survey = survey
        self.waiting: tuple[Waiting, ...] = ()  #: as last seen; read by any thread
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)

    def start(self) -> None:
        """Look at the queues from a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; do not wait for a look on its way."""
        self._is_stopped.set()

    def look(self) -> None:
        """Look once."""
        self._survey()
        if not self._is_full():
            self.waiting = ()
            return
        self.waiting = tuple(peek(self._client, self._queues(), DEPTH, self.waiting))
        requests = [each.request for each in self.waiting]
        asking = [each for each in requests if each.edit is not None or each.loras]
        for request, has_room in with_room(asking, self._loras_bytes // 2):
            (self._prefetch if has_room else self._recall)(request)

    def _run(self) -> None:
        while not self._is_stopped.wait(PERIOD_S):
            with log_errors(log, "lookahead_failed"):
                try:
                    self.look()
                except Unavailable as error:
                    log.debug("queues_not_seen", reason=str(error))


def with_room(requests: Iterable[JobRequest], room_bytes: int) -> Iterator[tuple[JobRequest, bool]]:
    """Say of each request whether its LoRAs have room beside those of the ones before it."""
    asked: dict[tuple[str, str], int] = {}
    for request in requests:
        own = {(use.id, request.model): use.size_bytes for use in request.loras}
        has_room = sum((asked | own).values()) <= room_bytes
        if has_room:
            asked |= own
        yield request, has_room
