"""The Celery app: queues, broker transport and worker options.

No ack and no prefetch: a message only announces a job; the job's lease is what survives a worker.
"""

import structlog
from celery import Celery
from celery.signals import setup_logging
from kombu import Exchange, Queue

from core.log import configure
from core.placement import CPU_QUEUE
from core.settings import Settings, get_settings
from storage.redis.address import Address, OneServer, Sentinels, broker_url, read_address
from storage.redis.connect import sentinel_options
from storage.redis.keys import PRIORITIES
from tasks.messages import RETRAIN, SCORE, WEBHOOK

#: A broker that says nothing for so long is gone.
SOCKET_TIMEOUT_S = 15.0
#: How long a pop waits at most, in seconds and in leases: that of a worker which stands still takes
#: a message with it, and must be over when the jobs of this worker go to others.
POP_S, POP_LEASES = 5.0, 0.5


def make_app(settings: Settings) -> Celery:
    """Build the app that workers and senders of one service share."""
    store = read_address(settings.redis_url)
    app = Celery(
        "atelier",
        broker=settings.broker_url or broker_url(store),
        amqp="tasks.bells:BellAMQP" if settings.broker_url else "tasks.doorbell:DoorbellAMQP",
        include=[
            "tasks.control",
            "tasks.generate",
            "tasks.jobs.retrain",
            "tasks.jobs.score",
            "tasks.jobs.webhook",
        ],
    )
    app.conf.update(
        # A bell is acknowledged with its job: RabbitMQ then rings a worker for as many as it makes.
        task_acks_late=bool(settings.broker_url),
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        task_send_sent_event=False,
        task_default_queue=CPU_QUEUE,
        task_queues=None if settings.broker_url else [_queue(CPU_QUEUE)],
        task_routes={name: {"queue": CPU_QUEUE} for name in (WEBHOOK, SCORE, RETRAIN)},
        task_create_missing_queues=True,
        worker_disable_prefetch=not settings.broker_url,
        worker_prefetch_multiplier=1,
        worker_enable_prefetch_count_reduction=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_send_task_events=False,  # two messages a job; Flower asks for them while it runs
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        **_rung_by_rabbitmq() if settings.broker_url else _rung_by(store, settings.lease_s),
    )
    return app


def _queue(name: str) -> Queue:
    return Queue(name, Exchange(name), routing_key=name)


def _rung_by(store: Address, lease_s: float) -> dict[str, object]:
    return {
        "broker_transport": _transport(store),
        "broker_transport_options": _transport_options(store, lease_s),
    }


def _rung_by_rabbitmq() -> dict[str, object]:
    """Ring over RabbitMQ: what it has confirmed survives it."""
    return {
        "broker_transport": "tasks.bells:BellTransport",
        "broker_transport_options": {"confirm_publish": True},
        "broker_heartbeat": 10,
    }


def _transport(store: Address) -> str:
    kind = "Transport" if isinstance(store, OneServer) else "SentinelTransport"
    return f"tasks.transport:{kind}"


def _transport_options(store: Address, lease_s: float) -> dict[str, object]:
    options: dict[str, object] = {
        "polling_interval": min(POP_S, POP_LEASES * lease_s),
        "priority_steps": list(PRIORITIES),
        "queue_order_strategy": "round_robin",
        "socket_timeout": SOCKET_TIMEOUT_S,
        "socket_connect_timeout": 5.0,
        "socket_keepalive": True,
        "health_check_interval": 25,
    }
    if isinstance(store, Sentinels):
        options["master_name"] = store.service
        options["sentinel_kwargs"] = sentinel_options(store)
    return options


@setup_logging.connect(weak=False)  # type: ignore[untyped-decorator]
def _log_as_everybody_does(**_: object) -> None:
    """Keep Celery from formatting its own lines and those of tasks."""
    if not structlog.is_configured():  # else this process has a name
        settings = get_settings()
        configure(settings.log_level, is_json=settings.log_json, process="celery")


app = make_app(get_settings())
