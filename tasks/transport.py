"""kombu's Redis transport, with pops that wait long, and may be ended; it survives any message.

kombu decodes what it has popped inside the hub's loop, where every exception ends the process: a
message that cannot be read is dropped instead. A pop names the queues that it waits for: when
others are to be consumed the server is asked to end it, over another connection.
"""

import time
from collections.abc import Callable
from queue import Empty
from typing import Protocol

from kombu.transport import redis
from redis.exceptions import ResponseError

from core.log import get_logger
from storage.redis.keys import STATS
from storage.redis.leader import LOOK_S, Looks
from tasks.messages import UNREADABLE, Unreadable

log = get_logger(__name__)

#: What a worker connects again for. kombu ends it when a server refuses, as one does that leads no
#: more, or whose disk is full.
RECOVERABLE = (*redis.Transport.connection_errors, ResponseError)
#: The hub turns so often at least: Celery looks between two turns whether it is to stop.
TURN_S = 0.1
#: A pop that is to end at a shutdown is asked to so often, and for so long.
ASK_AGAIN_S, CLOSE_S = 0.01, 2.0


class Loop(Protocol):
    """The part of kombu's event loop we use."""

    def call_repeatedly(self, delay: float, callback: Callable[[], object]) -> object:
        """Call again and again, after so many seconds each."""


class Channel(redis.Channel):  # type: ignore[misc]
    """Reads queues and broadcasts; whatever one message raises stays with this message."""

    _may_ask = True  #: the server to end a pop
    _popping: frozenset[str] = frozenset()  #: the queues that the pop on its way waits for
    #: Its socket, and the server's number of its connection.
    _popper: tuple[object, int] = (None, 0)

    def renew_pop(self) -> bool:
        """End the pop on its way if it waits for other queues than are consumed now.

        Tells whether none does. One that has an answer is not lost: it ends by itself.
        """
        if not self._in_poll or self._popping == frozenset(self.active_queues):
            return True
        self._end_pop()
        return False

    def close(self) -> None:
        """Close, without waiting for the pop on its way."""
        until = time.monotonic() + CLOSE_S
        while self._in_poll and not self._has_answer() and time.monotonic() < until:
            self._end_pop()
            time.sleep(ASK_AGAIN_S)
        super().close()

    def _brpop_start(self, timeout: float | None = None) -> None:
        connection = self.client.connection
        if self._popper[0] is not connection._sock:
            connection.send_command("CLIENT", "ID")
            self._popper = (connection._sock, connection.read_response())
        self._popping = frozenset(self.active_queues)
        super()._brpop_start(timeout)

    def _has_answer(self) -> bool:
        connection = self.client.connection
        return connection._sock is None or connection.can_read(timeout=0)

    def _end_pop(self) -> None:
        """Ask the server; where it does not let this user ask the pop ends by itself."""
        if not self._may_ask:
            return
        try:
            with self.conn_or_acquire() as client:
                client.client_unblock(self._popper[1])
        except self.connection.channel_errors as error:
            self._may_ask = False
            log.warning("pop_not_ended", reason=str(error), cure="ACL: +client|unblock")
        except self.connection_errors as error:
            log.warning("pop_not_ended", reason=str(error))

    def _brpop_read(self, **options: object) -> bool:
        return self._read(super()._brpop_read, **options)

    def _receive_one(self, client: object) -> bool:
        return self._read(super()._receive_one, client)

    def _read(self, read: Callable[..., bool], *args: object, **options: object) -> bool:
        try:
            return read(*args, **options)
        except KeyError as error:  # of the message, though kombu counts it to the connection's
            self._drop(error)
            return True
        except (Empty, *self.connection_errors, *self.connection.channel_errors):
            raise
        except Exception as error:  # a message that cannot be read must not end the worker
            self._drop(error)
            return True

    def _drop(self, error: Exception) -> None:
        """Count a message; its text stays out of the log."""
        reason = str(error) if isinstance(error, Unreadable) else type(error).__name__
        log.warning("message_dropped", reason=reason)
        try:
            with self.conn_or_acquire() as client:
                client.hincrby(STATS, UNREADABLE, 1)
        except (*self.connection_errors, *self.connection.channel_errors) as lost:
            log.warning("drop_not_counted", reason=str(lost))


class Transport(redis.Transport):  # type: ignore[misc]
    """Redis by way of that channel."""

    Channel = Channel
    connection_errors = RECOVERABLE

    def register_with_event_loop(self, connection: object, loop: Loop) -> None:
        """Read from the hub's loop, which turns often enough."""
        super().register_with_event_loop(connection, loop)
        loop.call_repeatedly(TURN_S, _nothing)


class SentinelChannel(Channel, redis.SentinelChannel):  # type: ignore[misc]
    """The same where sentinels know which server leads."""

    def follow(self) -> None:
        """Leave a server that leads no more: it answers pops, and nobody rings there."""
        leader = self.pool.get_master_address()
        listening = self.__dict__.get("subclient")  # kombu makes it when it is first used
        for each in (self._in_poll, listening and listening.connection):
            if each and each._sock is not None and (each.host, each.port) != leader:
                log.warning("leader_left", server=f"{each.host}:{each.port}")
                each.disconnect()  # the hub's next turn connects it again


class SentinelTransport(Transport, redis.SentinelTransport):  # type: ignore[misc]
    """Redis by way of that channel."""

    Channel = SentinelChannel

    def register_with_event_loop(self, connection: object, loop: Loop) -> None:
        """Read from the hub's loop, and look who leads now and then."""
        super().register_with_event_loop(connection, loop)
        self._looks = Looks()
        loop.call_repeatedly(LOOK_S, self._look)

    def _look(self) -> None:
        if self._looks.is_due:
            with self._looks.looking():
                for channel in list(self.channels):
                    channel.follow()


def _nothing() -> None:
    """Let the hub turn."""
