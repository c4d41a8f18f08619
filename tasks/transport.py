"""kombu's Redis transport, which drops a message that cannot be read instead of ending its worker.

kombu decodes what it has popped inside the hub's loop, where every exception ends the process.
"""

from collections.abc import Callable
from queue import Empty

from kombu.transport import redis

from core.log import get_logger
from storage.redis.keys import STATS
from tasks.messages import Unreadable

log = get_logger(__name__)

UNREADABLE = "messages_unreadable"  #: counted in the store


class Channel(redis.Channel):  # type: ignore[misc]
    """Reads queues and broadcasts; whatever one message raises stays with this message."""

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


class SentinelChannel(Channel, redis.SentinelChannel):  # type: ignore[misc]
    """The same where sentinels know which server leads."""


class SentinelTransport(redis.SentinelTransport):  # type: ignore[misc]
    """Redis by way of that channel."""

    Channel = SentinelChannel
