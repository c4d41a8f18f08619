"""Try models that nobody has tried while a worker has nothing to do, beside the one it serves.

One after the other, and only where both fit: loaded in a thread of its own, timed by the engine's
thread while it has no jobs, and let go of. What was measured of one that has to go early is kept.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

from core.log import get_logger
from core.model import Model
from worker.diffusion.runner import AnyRunner
from worker.futures import resolve, tried
from worker.process.model_loads import ModelLoads
from worker.trials.cost_trial import Trials
from worker.trials.timing import Part

log = get_logger(__name__)

#: A worker without jobs for so long is taken to be idle.
IDLE_S = 10.0


class IdleHost(Protocol):
    """What times models while it has no jobs: the engine."""

    def when_idle(self, model: Model, parts: Iterator[Part]) -> "Future[None]":
        """Do this with a model while there are no jobs, a part at a time."""

    def drop_idle(self, model: str) -> None:
        """Do no more with it; returns once nothing is."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Trial:
    """A model on trial."""

    model: Model
    loaded: "Future[AnyRunner]"
    timed: "Future[None] | None" = None  #: None until it is loaded


class IdleTrials:
    """Tries the models of one worker. All methods belong to the thread that holds its models."""

    def __init__(
        self,
        *,
        trials: Trials,
        loads: ModelLoads,
        host: IdleHost,
        worker: str,
        is_idle: Callable[[], bool],
        idle_s: float = IDLE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; workers of different names begin with different models."""
        self._trials = trials
        self._loads = loads
        self._host = host
        self._worker = worker
        self._is_idle = is_idle
        self._idle_s = idle_s
        self._clock = clock
        self._idle_since: float | None = None
        self._trial: _Trial | None = None

    @property
    def holds(self) -> tuple[str, ...]:
        """Name the model on trial: it takes memory."""
        return (self._trial.model.name,) if self._trial is not None else ()

    def tend(
        self,
        models: Mapping[str, Model],
        resident: Collection[str],
        fits: Callable[[str], bool],
    ) -> None:
        """Go on with the model on trial, or begin with another if there is nothing else to do."""
        if self._trial is not None:
            self._go_on(self._trial)
        elif self._has_been_idle():
            name = self._choose(models, resident, fits)
            if name is not None:
                self._begin(models[name])

    def take(self, name: str) -> AnyRunner | None:
        """Give the model on trial away, if it is this one: it is to serve."""
        trial = self._trial
        if trial is None or trial.model.name != name:
            return None
        self._trial = None
        loaded = tried(trial.loaded.result)
        self._host.drop_idle(name)
        return None if isinstance(loaded, Exception) else loaded

    def leave(self) -> None:
        """Let go of the model on trial: its memory is needed."""
        if self._trial is not None and (runner := self.take(self._trial.model.name)) is not None:
            runner.close()

    def time_served(self, runner: AnyRunner) -> None:
        """Time a model that serves, between its jobs."""
        self._host.when_idle(runner.model, self._trials.parts(runner)).add_done_callback(
            lambda ended: _tell(runner.model.name, ended)
        )

    def _has_been_idle(self) -> bool:
        if not self._is_idle():
            self._idle_since = None
            return False
        now = self._clock()
        self._idle_since = now if self._idle_since is None else self._idle_since
        return now - self._idle_since >= self._idle_s

    def _choose(
        self,
        models: Mapping[str, Model],
        resident: Collection[str],
        fits: Callable[[str], bool],
    ) -> str | None:
        failed = self._loads.failures
        names = [n for n in models if n not in resident and n not in failed]
        able = [name for name in self._trials.untried(names) if fits(name)]
        return min(able, key=lambda name: crc32(f"{self._worker} {name}".encode()), default=None)

    def _begin(self, model: Model) -> None:
        trial = _Trial(model=model, loaded=Future())
        self._trial = trial

        def load() -> None:
            resolve(trial.loaded, lambda: self._loads.load(model, serves=False))

        threading.Thread(target=load, name="trial", daemon=True).start()

    def _go_on(self, trial: _Trial) -> None:
        if not trial.loaded.done():
            return
        if trial.loaded.exception() is not None:
            self._trial = None
            return
        runner = trial.loaded.result()
        if trial.timed is None:
            trial.timed = self._host.when_idle(trial.model, self._trials.parts(runner))
        if trial.timed.done():
            error = trial.timed.exception()
            if isinstance(error, Exception):
                self._loads.note_failure(trial.model.name, error)
            self._trial = None
            runner.close()


def _tell(model: str, ended: "Future[None]") -> None:
    if ended.exception() is not None:
        log.error("model_not_timed", model=model, exc_info=ended.exception())
