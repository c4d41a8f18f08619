"""Celery consumer without acknowledgements: the job record is the source of truth.

A message is gone once it is popped, so kombu keeps nothing `unacked`: losing the broker cannot
strand a message, nor end a worker (kombu 5.7 dies restoring unacked messages), and two round trips
a job are saved.
"""

from celery.app.amqp import AMQP
from celery.worker.request import Request
from kombu import Consumer
from kombu.message import Message

from tasks.messages import check


class DoorbellConsumer(Consumer):  # type: ignore[misc]
    """Hands Celery no message that it would fail at, or log as a whole."""

    def _receive_callback(self, message: Message) -> None:
        """Raise `Unreadable` to the transport, which drops the message."""
        envelope = {
            "headers": message.headers,
            "properties": message.properties,
            "content_type": message.content_type,
            "content_encoding": message.content_encoding,
        }
        check(envelope, message.body)
        super()._receive_callback(message)


class DoorbellAMQP(AMQP):  # type: ignore[misc]
    """Celery's queues, consumed without acknowledgement."""

    Consumer = DoorbellConsumer

    def TaskConsumer(self, channel: object, **options: object) -> DoorbellConsumer:
        """Consume without acknowledgement."""
        consumer: DoorbellConsumer = super().TaskConsumer(channel, **{"no_ack": True, **options})
        return consumer


class DoorbellRequest(Request):  # type: ignore[misc]
    """A message in a worker's hands that nobody waits to hear about."""

    def acknowledge(self) -> None:
        """Count as acknowledged: Redis let go of the message when it was read; RabbitMQ is told."""
        if self.task.acks_late:
            super().acknowledge()
        self.acknowledged = True
