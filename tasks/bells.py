"""Bells over RabbitMQ: quorum queues, and messages on them that stand for their queue alone.

A bell says that something waits on its queue. It may come late, twice or not at all: whoever hears
it claims whose turn it is, and upkeep rings for what waits without one.
"""

import json
import threading
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from amqp.exceptions import MessageNacked
from celery.app.amqp import AMQP, Queues
from kombu import Connection, Exchange, Producer, Queue
from kombu.exceptions import OperationalError
from kombu.message import Message
from kombu.transport import pyamqp

from core.errors import StoreUnavailable
from core.log import get_logger
from tasks.doorbell import DoorbellConsumer
from tasks.messages import Unreadable

#: Of every queue. One that nobody declares or consumes for so long (ms) is deleted: hosts come and
#: go, and each worker has queues of its own.
ARGUMENTS: Final = {"x-queue-type": "quorum", "x-expires": 86_400_000}
CONNECT_S: Final = 5.0

T = TypeVar("T")

log = get_logger(__name__)


class QuorumQueues(Queues):  # type: ignore[misc]
    """Celery's queues, each a quorum queue."""

    def add(self, queue: Queue | str, **options: object) -> Queue:
        """Add a queue, of the one kind there is."""
        if isinstance(queue, Queue):
            queue.queue_arguments = dict(ARGUMENTS)
        else:
            options["queue_arguments"] = dict(ARGUMENTS)
        return super().add(queue, **options)


class BellConsumer(DoorbellConsumer):
    """Drops what no worker could read."""

    def _receive_callback(self, message: Message) -> None:
        where = message.delivery_info
        message.properties = {
            **message.properties,
            "delivery_tag": str(message.delivery_tag),
            "delivery_info": {
                "exchange": where.get("exchange", ""),
                "routing_key": where.get("routing_key", ""),
            },
        }
        try:
            super()._receive_callback(message)
        except Unreadable as error:
            log.warning("message_dropped", reason=str(error))
            self.channel.basic_ack(message.delivery_tag)


class BellChannel(pyamqp.Channel):  # type: ignore[misc]
    """RabbitMQ's own."""

    def renew_pop(self) -> bool:
        """Tell that no pop waits for other queues than are consumed: none is ever sent."""
        return True


class BellConnection(pyamqp.Connection):  # type: ignore[misc]
    """RabbitMQ's own."""

    Channel = BellChannel


class BellTransport(pyamqp.Transport):  # type: ignore[misc]
    """RabbitMQ, as workers ask it."""

    Connection = BellConnection

    def qos_semantics_matches_spec(self, connection: object) -> bool:
        """Limit each consumer by itself: quorum queues know no limit of a whole channel."""
        return True


class BellAMQP(AMQP):  # type: ignore[misc]
    """Celery's queues on RabbitMQ, acknowledged one by one."""

    Consumer = BellConsumer
    queues_cls = QuorumQueues


class Bells:
    """RabbitMQ's queues as upkeep sees them: it rings and counts. For one thread at a time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = self._connect()
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def ring(self, queue: str, message: bytes) -> None:
        """Put a message of the store's form on a queue; it is confirmed when this returns.

        Raises:
            StoreUnavailable: RabbitMQ does not take it, as far as anybody knows.
            Unreadable: it is no message.
        """
        said = _read(message)
        with self._lock:
            self._do(lambda: self._publish(queue, said))

    def waiting(self, queue: str) -> int:
        """Count the bells of a queue that no worker has heard.

        Raises:
            StoreUnavailable: RabbitMQ does not answer.
        """
        with self._lock:
            return self._do(lambda: self._declared(queue))

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.release()

    def _connect(self) -> Connection:
        options = {"confirm_publish": True}
        return Connection(self._url, connect_timeout=CONNECT_S, transport_options=options)

    def _publish(self, queue: str, said: dict[str, Any]) -> None:
        if queue not in self._known:
            self._declared(queue)
        Producer(self._connection.default_channel).publish(
            b64decode(said["body"]),
            exchange="",
            routing_key=queue,
            headers=said["headers"],
            content_type=said["content-type"],
            content_encoding=said["content-encoding"],
            correlation_id=said["properties"]["correlation_id"],
            delivery_mode=2,
        )

    def _declared(self, queue: str) -> int:
        own = Queue(queue, Exchange(queue), routing_key=queue, queue_arguments=dict(ARGUMENTS))
        bound = own.bind(self._connection.default_channel)
        bound.declare()
        self._known.add(queue)
        return int(bound.queue_declare(passive=True).message_count)

    def _do(self, call: Callable[[], T]) -> T:
        """Call over a connection that is there; of one that is lost the next call makes another."""
        try:
            self._connection.ensure_connection(max_retries=1, timeout=CONNECT_S)
            return call()
        except (
            MessageNacked,
            OperationalError,
            *self._connection.connection_errors,
            *self._connection.channel_errors,
        ) as error:
            self._known.clear()
            with suppress(Exception):  # it is broken anyway
                self._connection.release()
            self._connection = self._connect()
            raise StoreUnavailable(f"RabbitMQ: {error}") from error


def _read(message: bytes) -> dict[str, Any]:
    try:
        said: dict[str, Any] = json.loads(message)
        said["body"], said["headers"], said["properties"]["correlation_id"]
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(type(error).__name__) from None
    return said
