"""Prefetch activations and LoRAs of jobs that wait at the heads of the queues.

While a worker has room nothing waits for it, as what comes is claimed at once: nothing is asked.
"""

import threading
from collections.abc import Callable, Collection

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
        is_full: Callable[[], bool] = lambda: True,
        survey: Callable[[], object] = lambda: None,
    ) -> None:
        """Prepare to look; `survey` is called beside each look, and may take a while too.

        `is_full`: whether this worker claims nothing more now.
        """
        self._client = client
        self._queues = queues
        self._prefetch = prefetch
        self._is_full = is_full
        self._survey = survey
        self.waiting: tuple[Waiting, ...] = ()  #: as last seen; read by any thread
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lookahead", daemon=True)

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
        for each in self.waiting:
            if each.request.edit is not None or each.request.loras:
                self._prefetch(each.request)

    def _run(self) -> None:
        while not self._is_stopped.wait(PERIOD_S):
            with log_errors(log, "lookahead_failed"):
                try:
                    self.look()
                except Unavailable as error:
                    log.debug("queues_not_seen", reason=str(error))
