"""Which edits will this worker be given next? Their activations are fetched while they wait."""

import threading
from collections.abc import Callable, Collection

import redis

from core.errors import Unavailable
from core.job import JobRequest
from core.log import get_logger
from storage.waiting import peek

log = get_logger(__name__)

#: Seconds between two looks at the queues.
PERIOD_S = 0.5
#: Jobs looked at on each queue: others come later.
DEPTH = 8


class Lookahead:
    """Looks at the heads of the queues that one worker serves, in a thread of its own."""

    def __init__(
        self,
        client: redis.Redis,
        *,
        queues: Callable[[], Collection[str]],
        prefetch: Callable[[JobRequest], object],
    ) -> None:
        self._client = client
        self._queues = queues
        self._prefetch = prefetch
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lookahead", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopped.set()

    def look(self) -> None:
        """Look once."""
        for request in peek(self._client, self._queues(), DEPTH):
            if request.edit is not None:
                self._prefetch(request)

    def _run(self) -> None:
        while not self._is_stopped.wait(PERIOD_S):
            try:
                self.look()
            except Unavailable as error:
                log.debug("queues_not_seen", reason=str(error))
            except Exception:
                log.exception("lookahead_failed")
