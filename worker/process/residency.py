"""Follow the published plan: load and unload models, switch queues with them.

The next model is loaded before the last one goes if both fit; jobs are served meanwhile. A queue
is left before its model is, so no job is claimed that cannot be made. A model that goes stays
until its jobs are made; where there is room nobody waits for that, and the next plan is obeyed.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Protocol

from core import metrics
from core.boards.plan import Plan
from core.errors import AtelierError, ConfigurationError, Unavailable
from core.log import get_logger, log_errors
from core.model import Model
from core.placement import queue_of
from worker.diffusion.runner import AnyRunner
from worker.process.queues import Queues

log = get_logger(__name__)

POLL_S = 0.5
#: For so long a model that could not be loaded is not asked for again.
REFUSED_S = 60.0


class Host(Protocol):
    """What serves the models: the engine."""

    def attach(self, runner: AnyRunner) -> None:
        """Serve a model from the next step on."""

    def detach(self, model: str) -> "Future[None]":
        """Serve a model no more, once its jobs are made."""


class Residency:
    """Holds the models of one worker. `follow` belongs to one thread."""

    def __init__(
        self,
        *,
        name: str,
        models: Mapping[str, Model],
        load: Callable[[Model], AnyRunner],
        host: Host,
        queues: Queues,
        memory_gib: float,
        on_change: Callable[[], object] = lambda: None,
    ) -> None:
        """Prepare; `on_change` hears at once of models that have come or gone."""
        self._name = name
        self._models = models
        self._load = load
        self._host = host
        self._queues = queues
        self._memory_gib = memory_gib
        self._on_change = on_change
        self._refused: tuple[int, str] | None = None  #: version and model of a plan we cannot obey
        self._failed: dict[str, float] = {}  #: model -> when it could not be loaded, monotonic s
        self._leaving: dict[str, Future[None]] = {}  #: model -> done once it is gone
        self._is_stopped = threading.Event()
        self.resident: tuple[str, ...] = ()
        self.takes_latents = False  #: by the plan, somebody has a use for what images leave

    @property
    def refused(self) -> tuple[str, ...]:
        """Name the models that could not be loaded lately."""
        now = time.monotonic()
        return tuple(sorted(m for m, at in self._failed.copy().items() if now - at < REFUSED_S))

    def hold(self, names: Sequence[str]) -> None:
        """Load models and serve them, before the worker connects."""
        for name in names:
            self._attach(name)
        self._queues.serve([queue_of(name) for name in self.resident])

    def run(self, read: Callable[[], Plan | None]) -> None:
        """Follow the plan until `stop`."""
        while not self._is_stopped.wait(POLL_S):
            with log_errors(log, "residency_failed"):
                try:
                    self.follow(read())
                    self._queues.assert_again()
                except Unavailable as error:
                    log.warning("plan_not_read", reason=str(error))

    def stop(self) -> None:
        """Follow the plan no more."""
        self._is_stopped.set()

    def follow(self, plan: Plan | None) -> None:
        """Hold what the plan assigns to this worker; without an assignment keep what we have."""
        self.takes_latents = plan is not None and plan.takes_latents
        target = plan.assignments.get(self._name) if plan is not None else None
        if plan is None or target is None or self.resident == (target,):
            return
        if self._refused == (plan.version, target):
            return
        before = self.resident
        try:
            self._change_to(target)
        except AtelierError as error:
            log.error("model_not_loaded", model=target, reason=str(error))
            self._refused, self._failed[target] = (plan.version, target), time.monotonic()
            self.hold([name for name in before if name not in self.resident])
            self._tell()

    def _change_to(self, target: str) -> None:
        if target not in self._models:
            raise ConfigurationError(f"there is no model {target!r} on this worker's disk")
        others = [name for name in self.resident if name != target]
        if not self._fits([*self.resident, target]):
            self._drop(others)
            self._wait_for_room()
        if target not in self.resident:
            self._attach(target)
        self._failed.pop(target, None)
        self._queues.serve([queue_of(name) for name in self.resident])
        self._tell()
        self._drop([name for name in others if name in self.resident])

    def _tell(self) -> None:
        with suppress(Unavailable):  # the next report says it
            self._on_change()

    def _attach(self, name: str) -> None:
        began = time.monotonic()
        runner = self._load(self._models[name])
        seconds = time.monotonic() - began
        metrics.model_load.observe(seconds)
        log.info("model_loaded", model=name, seconds=round(seconds, 2))
        self._host.attach(runner)
        self.resident = (*self.resident, name)

    def _drop(self, names: Sequence[str]) -> None:
        """Leave the queues, then let the models go once their jobs are made."""
        if not names:
            return
        kept = tuple(name for name in self.resident if name not in names)
        is_left = self._queues.serve([queue_of(name) for name in kept])
        while not is_left.wait(POLL_S):
            self._queues.assert_again()
            if self._is_stopped.is_set():
                return
        for name in names:
            self._leaving[name] = self._host.detach(name)
        self.resident = kept
        self._tell()
        log.info("models_left", models=list(names))

    def _wait_for_room(self) -> None:
        for gone in self._leaving.values():
            gone.result()

    def _fits(self, names: Sequence[str]) -> bool:
        self._leaving = {name: gone for name, gone in self._leaving.items() if not gone.done()}
        all_names = [*set(names), *self._leaving]
        return sum(self._models[name].size_gib for name in all_names) <= self._memory_gib
