"""Follow the published plan: load and unload models, switch queues with them.

A worker reports before it loads anything, and while it loads. The next model is loaded before the
last one goes if both fit; jobs are served meanwhile. A queue is left before its model is, so no job
is claimed that cannot be made. A model that goes stays until the jobs in the engine are made, and
those that are not there yet, whose inputs are still read, go back to their queue; where there is
room nobody waits for that, and the next plan is obeyed.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Protocol

from core.boards.fleet import Stage
from core.boards.need import Need, together_gib
from core.boards.plan import WorkerAssignment
from core.errors import ConfigurationError, Unavailable
from core.log import get_logger, log_errors
from core.model import Model
from core.placement import queue_of
from worker.diffusion.runner import AnyRunner
from worker.futures import tried
from worker.process.model_loads import ModelLoads
from worker.process.queues import Queues

log = get_logger(__name__)

POLL_S = 0.5
#: Who plans has so long to give a new worker its first model.
PLANNED_S = 3.0
WAIT_S = 0.1


class Host(Protocol):
    """What serves the models: the engine."""

    def attach(self, runner: AnyRunner) -> None:
        """Serve a model from the next step on."""

    def detach(self, model: str) -> "Future[None]":
        """Serve a model no more, once its jobs are made."""


class Spare(Protocol):
    """What uses the rest of the memory while there is nothing to do."""

    @property
    def holds(self) -> tuple[str, ...]:
        """Name what it has in memory."""

    def tend(
        self, models: Mapping[str, Model], resident: Collection[str], fits: Callable[[str], bool]
    ) -> None:
        """Go on with what it does."""

    def take(self, name: str) -> AnyRunner | None:
        """Give a model away if it has it."""

    def leave(self) -> None:
        """Free the memory."""

    def time_served(self, runner: AnyRunner) -> None:
        """Time a model that serves, between its jobs."""


class Residency:
    """Holds the models of one worker. `run` has a thread of its own, to which `follow` belongs."""

    def __init__(
        self,
        *,
        models: Mapping[str, Model],
        loads: ModelLoads,
        host: Host,
        queues: Queues,
        memory_gib: float,
        spare: Spare,
        need: Callable[[Model], Need] = lambda model: Need(weights_gib=model.size_gib),
        on_change: Callable[[], object] = lambda: None,
        on_turn: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """Prepare; `on_change` hears at once of models that have come or gone.

        `on_turn` is called before each look at the plan, and names the models that are not any more
        what they were, or not there.
        """
        self.models = models
        self._loads = loads
        self._host = host
        self._queues = queues
        self._memory_gib = memory_gib
        self._spare = spare
        self._need = need
        self._on_change = on_change
        self._on_turn = on_turn
        self._refused: tuple[int, str] | None = None  #: version and model of a plan we cannot obey
        self._leaving: dict[str, Future[None]] = {}  #: model -> done once it is gone
        self._coming: tuple[str, ...] = ()  #: what is loaded to serve
        self._on_trial = spare.holds  #: noted, as `spare` belongs to one thread
        self._is_stopped = threading.Event()
        self.resident: tuple[str, ...] = ()
        self.takes_latents = False  #: by the plan, somebody has a use for what images leave

    @property
    def held(self) -> frozenset[str]:
        """Name the models that take memory: on trial, being loaded, served, or on their way out.

        Any thread may ask. A model goes from one to the next in this order, so none is missed.
        """
        names = [*self._on_trial, *self._coming, *self.resident]
        names += [name for name, gone in self._leaving.copy().items() if not gone.done()]
        return frozenset(names)

    def hold(self, names: Sequence[str]) -> bool:
        """Load models one by one, and serve each at once. Tells whether any could be loaded."""
        for name in names:
            tried(partial(self._bring, name))  # what fails is noted: the others are served
        return bool(self.resident)

    def _bring(self, name: str) -> None:
        self._check(name)
        self._attach(name)
        self._serve()

    def run(self, read: Callable[[], WorkerAssignment | None], preload: Sequence[str]) -> None:
        """Follow the plan until `stop`; until it says anything hold the models of `preload`."""
        with log_errors(log, "residency_failed"):
            self._on_turn()
            self._begin(read, preload)
        while not self._is_stopped.wait(POLL_S):
            with log_errors(log, "residency_failed"):
                self._let_go(self._on_turn())
                try:
                    self.follow(read())
                    self._queues.assert_again()
                except Unavailable as error:
                    log.warning("plan_not_read", reason=str(error))
                self._tend_trial()

    def stop(self) -> None:
        """Follow the plan no more."""
        self._is_stopped.set()

    def follow(self, given: WorkerAssignment | None) -> None:
        """Hold what the plan assigns to this worker; without an assignment keep what we have."""
        self.takes_latents = given is not None and given.takes_latents
        target = given.model if given is not None else None
        if given is None or target is None or self.resident == (target,):
            return
        if self._refused == (given.version, target):
            return
        before = self.resident
        if isinstance(tried(partial(self._change_to, target)), Exception):  # which is noted
            self._refused = (given.version, target)
            self.hold([name for name in before if name not in self.resident])
            self._tell()

    def _let_go(self, names: Collection[str]) -> None:
        """Serve models no more whose folder is gone or another: the plan brings them again."""
        if any(name in self._spare.holds for name in names):
            self._leave_trial()
        self._drop([name for name in self.resident if name in names])

    def _begin(self, read: Callable[[], WorkerAssignment | None], preload: Sequence[str]) -> None:
        """Wait a moment for a plan that knows of us; else serve what we were told to, or can."""
        until = time.monotonic() + PLANNED_S
        while (given := _read(read)) is not None:
            if given.model is not None:
                return
            if preload or time.monotonic() > until or self._is_stopped.wait(WAIT_S):
                break
        if not self.hold(preload):
            any(self.hold([name]) for name in sorted(self.models))

    def _change_to(self, target: str) -> None:
        self._check(target)
        others = [name for name in self.resident if name != target]
        if not self._fits(target) and target not in self._spare.holds:
            self._leave_trial()
        if not self._fits(target):
            self._drop(others)
            self._wait_for_room(target)
        if target not in self.resident:
            self._attach(target)
        self._serve()
        self._drop([name for name in others if name in self.resident])

    def _check(self, target: str) -> None:
        """Refuse what can never be held here, before anything goes for it."""
        if (model := self.models.get(target)) is None:
            error = ConfigurationError(f"there is no model {target!r} on this worker's disk")
        elif (need := self._need(model)).gib > self._memory_gib:
            error = ConfigurationError(
                f"{target} needs {need.weights_gib:.2f} GiB for its weights "
                f"{'(text encoders left to the host) ' if need.is_offloaded else ''}and "
                f"{need.work_gib:.2f} to make an image, and this worker has "
                f"{self._memory_gib:.2f} (ATELIER_MEMORY_GIB): a larger device, a copy of the "
                "model in half precision, or smaller images (default_size in its atelier.json)"
            )
        else:
            return
        self._loads.note_failure(target, error)
        raise error

    def _serve(self) -> None:
        self._queues.serve([queue_of(name) for name in self.resident])
        self._tell()

    def _tell(self) -> None:
        with suppress(Unavailable):  # the next report says it
            self._on_change()

    def _attach(self, name: str) -> None:
        if name in self._leaving:
            self._wait_for_room(name)
        self._coming = (name,)
        try:
            runner = self._spare.take(name)
            self._on_trial = self._spare.holds
            if runner is None:
                runner = self._loads.load(self.models[name])
            self._host.attach(runner)
            self._spare.time_served(runner)
            self.resident = (*self.resident, name)
        finally:
            self._coming = ()

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

    def _wait_for_room(self, target: str) -> None:
        if all(gone.done() for gone in self._leaving.values()):
            return
        with self._loads.doing(target, Stage.ROOM):
            for gone in self._leaving.values():
                gone.result()

    def _tend_trial(self) -> None:
        self._spare.tend(self.models, self.resident, self._fits)
        self._on_trial = self._spare.holds

    def _leave_trial(self) -> None:
        self._spare.leave()
        self._on_trial = self._spare.holds

    def _fits(self, name: str) -> bool:
        """Tell whether a model fits beside all that is held."""
        self._leaving = {name: gone for name, gone in self._leaving.items() if not gone.done()}
        names = {name, *self.held} & self.models.keys()
        needs = [self._need(self.models[each]) for each in names]
        return together_gib(needs) <= self._memory_gib


def _read(read: Callable[[], WorkerAssignment | None]) -> WorkerAssignment | None:
    try:
        return read()
    except Unavailable:
        return None
