"""Work that the engine's thread does while it has no jobs: a part at a time, given up for a job."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field

from core.model import Model
from worker.diffusion.runner import breaks_device
from worker.engine.stats import Activities, Activity
from worker.futures import tried


class GivenUp(Exception):
    """A part is left off in its middle, as a job has come: it is done again later."""


#: What its thread is said to do then.
TIMING = "timing"

#: A part may be a step of so many rows.
MOST_ROWS = 16

Part = Callable[[], object]


@dataclass(slots=True, kw_only=True, eq=False)
class IdleTask:
    """What is to be done with one model while nobody waits for images."""

    model: Model
    parts: Iterator[Part]  #: each is asked for when the one before has ended
    ended: "Future[None]" = field(default_factory=Future)  #: with the error of a part that failed
    number: int = 0  #: of the part
    begun: Part | None = None  #: and given up
    is_dropped: bool = False

    def activity(self) -> Activity:
        """Name the part, for whoever watches for hangs."""
        return Activity(
            doing=TIMING,
            model=self.model,
            shape=self.number,
            rows=MOST_ROWS,
            pixels=self.model.default_size**2,
            jobs=(),
            is_steered=False,
        )

    def next(self) -> Part | Exception | None:
        """Say what is to be done; None: nothing more."""
        return self.begun or tried(lambda: next(self.parts, None))


@dataclass(slots=True, eq=False)
class IdleWork:
    """Tasks of one engine, whose thread alone calls `run_part`."""

    _activities: Activities
    _is_wanted: Callable[[], bool]  #: somebody has come who is to be served instead
    tasks: tuple[IdleTask, ...] = ()  #: read by any thread
    #: Held during a part: whoever drops its task waits.
    _running: threading.Lock = field(default_factory=threading.Lock)
    _changing: threading.Lock = field(default_factory=threading.Lock)  #: held as `tasks` changes

    def add(self, model: Model, parts: Iterator[Part]) -> "Future[None]":
        """Do this when there is time; resolved when all of it is done, or it is dropped."""
        task = IdleTask(model=model, parts=parts)
        with self._changing:
            self.tasks = (*self.tasks, task)
        return task.ended

    def drop(self, model: str) -> None:
        """Do no more with a model: it is to go. Returns once nothing is done with it."""
        dropped = [task for task in self.tasks if task.model.name == model]
        for task in dropped:
            task.is_dropped = True
        with self._running:
            for task in dropped:
                self._end(task)

    def clear(self) -> None:
        """Drop everything."""
        for task in self.tasks:
            self.drop(task.model.name)

    def run_part(self) -> None:
        """Do one part of the first task, unless somebody comes."""
        with self._running:
            if self.tasks:
                self._run(self.tasks[0])

    def raise_if_wanted(self) -> None:
        """Leave a part off if somebody has come. Raises: GivenUp."""
        if self._is_wanted() or any(task.is_dropped for task in self.tasks):
            raise GivenUp

    def _run(self, task: IdleTask) -> None:
        part = task.next()
        if part is None or isinstance(part, Exception):
            self._end(task, part)
            return
        self._activities.now = task.activity()
        made = tried(part)
        self._activities.now = None
        if isinstance(made, Exception) and breaks_device(made):
            raise made  # no job could be made any more
        task.begun = part if isinstance(made, GivenUp) else None
        if isinstance(made, Exception) and not isinstance(made, GivenUp):
            self._end(task, made)
        elif task.begun is None:
            task.number += 1

    def _end(self, task: IdleTask, error: Exception | None = None) -> None:
        with self._changing:
            self.tasks = tuple(each for each in self.tasks if each is not task)
        if task.ended.done():
            return
        if error is None:
            task.ended.set_result(None)
        else:
            error.__traceback__ = None  # its frames hold tensors
            task.ended.set_exception(error)
