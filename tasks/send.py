"""Enqueue webhook, scoring and retraining tasks for CPU workers; best effort."""

from collections.abc import Sequence

from kombu.exceptions import OperationalError

from core.codec import encode
from core.errors import StoreUnavailable
from core.placement import CPU_QUEUE
from storage.jobs.outbox import Delivery
from tasks.app import app
from tasks.messages import LAST_PRIORITY, RETRAIN, SCORE, WEBHOOK

EXPIRY_S = 60.0  #: of what nobody waits for


def send_webhook(delivery: Delivery) -> None:
    """Have a webhook posted. Only its id shows in Flower and in logs.

    It runs out by no host's clock: whoever posts it asks the outbox whether it is current.

    Raises:
        StoreUnavailable: the broker does not take it; the outbox hands it out again.
    """
    document = encode(delivery).decode()
    _send(WEBHOOK, document, shown=delivery.id, priority=0, expiry_s=None)


def send_scoring(job_ids: Sequence[str]) -> None:
    """Have finished jobs scored, behind everything else.

    Raises:
        StoreUnavailable: the broker does not take it.
    """
    shown = f"{len(job_ids)} jobs"
    _send(SCORE, list(job_ids), shown=shown, priority=LAST_PRIORITY, expiry_s=EXPIRY_S)


def send_retraining() -> None:
    """Have the classifier trained anew, behind everything else.

    Raises:
        StoreUnavailable: the broker does not take it; the wish is on record.
    """
    _send(RETRAIN, None, shown="wanted", priority=LAST_PRIORITY, expiry_s=EXPIRY_S)


def _send(
    task: str, argument: object, *, shown: str, priority: int, expiry_s: float | None
) -> None:
    try:
        app.send_task(
            task,
            args=[] if argument is None else [argument],
            argsrepr=f"({shown!r},)",
            queue=CPU_QUEUE,
            priority=priority,
            expires=expiry_s,
            retry=False,
        )
    except OperationalError as error:
        raise StoreUnavailable(str(error)) from error
