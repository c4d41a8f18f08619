"""Subscribe a Celery consumer to variant queues, from any thread; applied on the hub."""

import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import Protocol

from core.log import get_logger
from core.placement import own_queue_of
from worker.futures import tried

log = get_logger(__name__)


#: A pop that was asked to end is looked at again so soon.
AGAIN_S = 0.02


class PopChannel(Protocol):
    """What pops messages."""

    def renew_pop(self) -> bool:
        """End a pop that waits for other queues than are consumed; tell whether none does."""


class TaskConsumer(Protocol):
    """The part of kombu's consumer we ask."""

    channel: PopChannel

    def consuming_from(self, queue: str) -> bool:
        """Tell whether a queue is consumed."""


class Consumer(Protocol):
    """The part of Celery's consumer we use."""

    task_consumer: TaskConsumer | None  #: None while there is no connection

    def add_task_queue(self, queue: str) -> None:
        """Consume another queue."""

    def cancel_task_queue(self, queue: str) -> None:
        """Consume a queue no more."""


class Hub(Protocol):
    """The part of kombu's event loop we use."""

    def call_soon(self, callback: Callable[..., object], *args: object) -> object:
        """Call on the hub's thread in its next turn."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> object:
        """Call on the hub's thread, from there, after so many seconds."""


class Controller(Protocol):
    """The part of Celery's worker we use."""

    hub: Hub | None
    consumer: Consumer


class Queues:
    """The variant queues one Celery worker shall consume, now and after every reconnect.

    With each it consumes one of its own: what the scheduler sends to this worker alone.
    """

    def __init__(self, first: Collection[str], worker: str) -> None:
        self._worker = worker
        self._wanted = self._with_own(first)
        self._left: set[str] = set()  #: once consumed, not wanted any more
        self._controller: Controller | None = None
        self._is_applied = threading.Event()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._wanted))

    def bind(self, controller: Controller) -> None:
        """Name the Celery worker whose consumer is meant."""
        self._controller = controller

    def serve(self, names: Collection[str]) -> threading.Event:
        """Consume these queues and no others; the event is set once that is so."""
        wanted = self._with_own(names)
        self._left |= self._wanted - wanted
        self._left -= wanted
        self._wanted = wanted
        self._is_applied = threading.Event()
        self.assert_again()
        return self._is_applied

    def assert_again(self) -> None:
        """See to it that what is wanted is consumed: a lost connection may have changed it."""
        controller = self._controller
        if controller is not None and controller.hub is not None:
            args = (controller.hub, controller.consumer, self._is_applied)
            controller.hub.call_soon(self._apply, *args)

    def _with_own(self, names: Collection[str]) -> frozenset[str]:
        return frozenset(names) | {own_queue_of(name, self._worker) for name in names}

    def _apply(self, hub: Hub, consumer: Consumer, is_applied: threading.Event) -> None:
        """Add and drop queues. Runs on the hub's thread, which no exception may reach."""
        changed = tried(partial(self._change, consumer))
        if isinstance(changed, Exception):  # the connection is lost: asked again after the next one
            log.warning("queues_not_changed", reason=str(changed))
        elif changed:
            is_applied.set()
        elif consumer.task_consumer is not None and is_applied is self._is_applied:
            hub.call_later(AGAIN_S, self._apply, hub, consumer, is_applied)

    def _change(self, consumer: Consumer) -> bool:
        tasks = consumer.task_consumer
        if tasks is None:
            return False
        for name in self._wanted:
            if not tasks.consuming_from(name):
                consumer.add_task_queue(name)
        for name in self._left:
            if tasks.consuming_from(name):
                consumer.cancel_task_queue(name)
        return tasks.channel.renew_pop()
