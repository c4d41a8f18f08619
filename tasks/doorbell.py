"""Why is no message ever acknowledged? It is gone once it is popped: the record is the truth.

So kombu keeps nothing `unacked`: losing the broker cannot strand a message, nor end a worker
(kombu 5.7 dies restoring unacked messages), and two round trips a job are saved.
"""

from celery.app.amqp import AMQP
from celery.worker.request import Request
from kombu import Consumer


class DoorbellAMQP(AMQP):  # type: ignore[misc]
    """Celery's queues, consumed without acknowledgement."""

    def TaskConsumer(self, channel: object, **options: object) -> Consumer:
        return super().TaskConsumer(channel, **{"no_ack": True, **options})


class DoorbellRequest(Request):  # type: ignore[misc]
    """A message in a worker's hands that nobody waits to hear about."""

    def acknowledge(self) -> None:
        self.acknowledged = True
