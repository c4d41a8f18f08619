"""Run a worker process under Celery, from its settings to its exit status."""

import logging
import os
import time
from functools import partial
from typing import Any

from celery import Celery
from celery.app.task import Context
from celery.apps import worker
from celery.apps.worker import Worker as CeleryWorker
from celery.signals import task_revoked
from celery.worker.consumer import Consumer

from catalog.catalogue import Catalogue
from catalog.models import warn_of_undescribed
from core.log import configure, say
from core.placement import CPU_QUEUE
from core.settings import Settings, get_settings
from core.telemetry.traces import TRACES
from worker.control.offers import QUEUE
from worker.diffusion.imports import first_imports
from worker.engine import metrics
from worker.jobs.executor import JobExecutor
from worker.process.components import Components, full_name
from worker.process.pool import pool_of

#: Task events wait so long for others: each message costs as much as a claim.
EVENT_PAUSE_S = 0.05
#: Webhooks and other ordinary tasks a CPU worker runs at a time.
CPU_THREADS = 16


class EventConsumer(Consumer):  # type: ignore[misc]
    """Celery's consumer, which sends the events of several tasks in one message."""

    _flush_due_at = 0.0  #: monotonic s

    def on_send_event_buffered(self) -> None:
        now = time.monotonic()
        if now < self._flush_due_at:
            return
        self._flush_due_at = now + EVENT_PAUSE_S
        self.hub.call_later(EVENT_PAUSE_S, self._flush_events)


class EngineWorker(CeleryWorker):  # type: ignore[misc]
    """Celery's worker, which on SIGQUIT gives its jobs back instead of failing them."""

    def wait_for_soft_shutdown(self) -> None:
        super().wait_for_soft_shutdown()
        self.pool.let_go()


def serve_models(app: Celery) -> int:
    """Run a worker that makes images, until it is told to stop."""
    settings = _settings("worker")
    logging.getLogger("celery.app.trace").setLevel(logging.WARNING)  # it would time the wrong thing
    warn_of_undescribed(settings.models_dir)
    parts = Components(settings, Catalogue(settings.models_dir), app)
    parts.start()
    controller = EngineWorker(
        hostname=parts.name,
        pool_cls=pool_of(
            parts.executor, settings.shutdown_s, stand_for_queues=bool(settings.broker_url)
        ),
        consumer_cls=EventConsumer,
        concurrency=settings.max_slots,
        exclude_queues=list(app.amqp.queues),  # those of its models come as they are loaded
        **_options(app, settings),
    )
    parts.queues.bind(controller)
    task_revoked.connect(partial(_on_revoked, parts.executor), weak=False)
    parts.follow()
    controller.start()
    parts.stop()
    code = int(controller.exitcode or 0)
    if parts.is_busy:  # a thread in the midst of it would outlive the interpreter, and crash
        os._exit(code)
    return code


def serve_cpu(app: Celery) -> int:
    """Run a worker for ordinary tasks, such as webhooks, until it is told to stop."""
    settings = _settings("cpu-worker")
    controller = CeleryWorker(
        hostname=full_name(settings.worker_name),
        pool_cls="threads",
        concurrency=CPU_THREADS,
        queues=[CPU_QUEUE],
        **_options(app, settings),
    )
    controller.start()
    return int(controller.exitcode or 0)


def serve_control(app: Celery) -> int:
    """Run a worker that computes ControlNets for base workers, until it is told to stop."""
    settings = _settings("control-worker")
    with first_imports():
        from worker.control.server import process_server as host
    host.start(settings)
    controller = CeleryWorker(
        hostname=full_name(settings.worker_name),
        pool_cls="threads",
        concurrency=settings.control_sessions,
        queues=[QUEUE],
        **_options(app, settings),
    )
    controller.start()
    host.stop()
    return int(controller.exitcode or 0)


def _on_revoked(
    executor: JobExecutor, request: Context, terminated: bool, expired: bool, **_: object
) -> None:
    """Cancel the record of a job that was revoked before anybody had claimed it."""
    if not terminated and not expired:
        executor.refuse(request.id)


def _settings(process: str) -> Settings:
    settings = get_settings()
    configure(settings.log_level, is_json=settings.log_json, process=process)
    TRACES.start(settings.otlp_endpoint, process)
    if settings.log_json:  # its last words go past all loggers
        worker.safe_say = partial(say, process)
    # It names jobs in its text alone, and before anybody has seen their records.
    logging.getLogger("celery.worker.strategy").setLevel(logging.WARNING)
    metrics.serve(settings.metrics_host, settings.metrics_port)
    return settings


def _options(app: Celery, settings: Settings) -> dict[str, Any]:
    return {
        "app": app,
        "loglevel": settings.log_level.upper(),
        "quiet": True,
        "without_gossip": True,
        "without_mingle": True,
    }
