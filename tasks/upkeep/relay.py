"""Carry bells from the store to RabbitMQ, and ring for jobs that wait without one.

Scripts put a job and its message into the store in one step, as ever; here messages go on, as they
come. One that is lost on the way is missed: fewer bells than jobs that wait.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import redis

from core.errors import StoreUnavailable
from core.log import get_logger
from storage.redis.connect import Word, ask_sync, converting_errors
from storage.redis.keys import PRIORITIES, QUEUES, STATS, job_key, list_of, waiting_key
from tasks.messages import UNREADABLE, Unreadable

#: Messages of one pop, and seconds that it waits.
BATCH: Final = 64
POP_S: Final = 1.0
#: Seconds after a failure, and that bells must be missing.
PAUSE_S: Final = 0.5
STALE_S: Final = 2.0
#: Bells that are rung anew on one queue at a time.
MOST: Final = 200

log = get_logger(__name__)


class RingsBells(Protocol):
    """What rings workers."""

    def ring(self, queue: str, message: bytes) -> None:
        """Ring on a queue."""

    def waiting(self, queue: str) -> int:
        """Count the bells that nobody has heard."""


class BellRelay:
    """Moves messages, on a thread of its own. Several may work side by side."""

    def __init__(self, client: "redis.Redis", bells: RingsBells) -> None:
        self._client = client
        self._bells = bells
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bells", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop; what was popped is on its queue, or back in the store."""
        self._is_stopped.set()
        self._thread.join(2 * POP_S + 5.0)

    def _run(self) -> None:
        while not self._is_stopped.is_set():
            try:
                self.move()
            except StoreUnavailable as error:
                log.warning("bells_not_moved", reason=str(error))
                self._is_stopped.wait(PAUSE_S)

    def move(self, wait_s: float = POP_S) -> int:
        """Move what is there, or wait for it; tell how many messages have gone.

        Raises:
            StoreUnavailable: the store, or RabbitMQ; what was not rung is back in the store.
        """
        names = _queues(self._client)
        lists = [list_of(name, priority) for name in names for priority in PRIORITIES]
        if not lists:
            self._is_stopped.wait(min(wait_s, 0.1))
            return 0
        which: tuple[Word, ...] = (len(lists), *lists, "RIGHT", "COUNT", BATCH)
        popped = ask_sync(self._client, "BLMPOP", wait_s, *which)
        return self._ring(*popped) if popped else 0

    def _ring(self, key: bytes, messages: Sequence[bytes]) -> int:
        queue = key.decode().partition("\x06")[0]
        for number, message in enumerate(messages):
            try:
                self._bells.ring(queue, message)
            except Unreadable:
                log.warning("message_dropped", reason="unreadable")
                ask_sync(self._client, "HINCRBY", STATS, UNREADABLE, 1)
            except StoreUnavailable:
                ask_sync(self._client, "RPUSH", key, *reversed(messages[number:]))
                raise
        return len(messages)


class MissingBells:
    """Rings where more jobs wait than bells do, if that stays so."""

    def __init__(self, client: "redis.Redis", bells: RingsBells) -> None:
        self._client = client
        self._bells = bells
        self._since: dict[str, float] = {}  #: queue -> when bells were first missing

    def run(self, now: float | None = None) -> int:
        """Look at every queue once; tell how many bells were rung.

        Raises:
            StoreUnavailable: the store, or RabbitMQ.
        """
        now = time.monotonic() if now is None else now
        names = _queues(self._client)
        missing = {name: count for name in names if (count := self._missing(name)) > 0}
        self._since = {name: self._since.get(name, now) for name in missing}
        late = {name: n for name, n in missing.items() if now - self._since[name] >= STALE_S}
        return self._ring(late)

    def _missing(self, queue: str) -> int:
        with converting_errors(), self._client.pipeline(transaction=False) as pipe:
            for priority in PRIORITIES:
                pipe.zcard(waiting_key(queue, priority))
                pipe.llen(list_of(queue, priority))
            counts = pipe.execute()
        waiting, messages = sum(counts[::2]), sum(counts[1::2])
        return waiting - messages - self._bells.waiting(queue) if waiting > messages else 0

    def _ring(self, late: Mapping[str, int]) -> int:
        rung = 0
        for queue, count in late.items():
            messages = self._oldest(queue)
            for _ in range(min(count, MOST) if messages else 0):
                self._bells.ring(queue, messages[0])
                rung += 1
            del self._since[queue]
        if rung:
            log.warning("republished", jobs=rung)
        return rung

    def _oldest(self, queue: str) -> list[bytes]:
        """Read the message of a job that waits on a queue."""
        for priority in PRIORITIES:
            for name in ask_sync(self._client, "ZRANGE", waiting_key(queue, priority), 0, 0):
                message = ask_sync(self._client, "HGET", job_key(name.decode()), "message")
                return [message] if message else []
        return []


def _queues(client: "redis.Redis") -> list[str]:
    return sorted(name.decode() for name in ask_sync(client, "SMEMBERS", QUEUES))
