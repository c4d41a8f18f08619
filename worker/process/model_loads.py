"""Load models one by one: how far each is, how long it took, and why one could not be loaded."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from core.boards.fleet import Stage, Warming
from core.errors import AtelierError
from core.log import get_logger
from core.model import Model
from core.telemetry import metrics
from worker.diffusion.runner import AnyRunner, breaks_device
from worker.futures import tried

log = get_logger(__name__)

#: For so long a model that could not be loaded is not asked for again.
REFUSED_S = 60.0
#: A load that goes on is told of in the log so often.
TELL_S = 15.0
#: A load that takes longer than the last one is almost there, for as long as it takes.
ALMOST = 0.99
#: Of a reason that reports repeat.
MOST_CHARS = 500


@dataclass(slots=True, kw_only=True, eq=False)
class _Doing:
    """A model that is got ready."""

    model: str
    stage: Stage
    serves: bool
    began: float  #: monotonic s
    told: float  #: monotonic s


class ModelLoads:
    """Loads models for one worker. Any thread may load, and ask."""

    def __init__(
        self,
        load: Callable[[Model], AnyRunner],
        *,
        prepare: Callable[[Model], object] = lambda model: None,
        usual_s: Callable[[str], float | None] = lambda name: None,
        on_change: Callable[[], object] = lambda: None,
        on_loaded: Callable[[Model, float], object] = lambda model, seconds: None,
        give_back: Callable[[], object] = lambda: None,
        die: Callable[[], object] = lambda: None,
    ) -> None:
        """Prepare; `prepare` is called before each load and does not count as one.

        `usual_s` says how long a model has taken on such a device, if it is known.

        `on_change` hears of every stage, `on_loaded` how long a load took (s). `give_back` returns
        the memory of a load that has failed; `die` ends this process, whose device is broken.
        """
        self._load = load
        self._prepare = prepare
        self._usual_s = usual_s
        self._on_change = on_change
        self._on_loaded = on_loaded
        self._give_back = give_back
        self._die = die
        self._doing: tuple[_Doing, ...] = ()
        self._lock = threading.Lock()
        self._failed: dict[str, tuple[float, str]] = {}  #: model -> when (monotonic s), and why

    @property
    def now(self) -> Warming | None:
        """Say what is got ready: first what was asked for."""
        doing = min(self._doing, key=lambda each: not each.serves, default=None)
        if doing is None:
            return None
        seconds, usual_s = time.monotonic() - doing.began, self._usual_s(doing.model)
        is_known = usual_s and doing.stage is Stage.READING
        return Warming(
            model=doing.model,
            stage=doing.stage,
            seconds=round(seconds, 1),
            fraction=round(min(ALMOST, seconds / usual_s), 3) if usual_s and is_known else None,
            serves=doing.serves,
        )

    @property
    def failures(self) -> Mapping[str, str]:
        """Say of each model that could not be loaded when it was tried last, why."""
        return {model: why for model, (_, why) in sorted(self._failed.copy().items())}

    @property
    def refused(self) -> tuple[str, ...]:
        """Name the models that could not be loaded lately."""
        failed, now = self._failed.copy().items(), time.monotonic()
        return tuple(sorted(model for model, (at, _) in failed if now - at < REFUSED_S))

    def load(self, model: Model, *, serves: bool = True) -> AnyRunner:
        """Load a model, to serve it or to try it.

        Raises: whatever keeps it from being loaded, free of its causes and of where it was raised,
                whose frames hold what was loaded by then; `failures` and the log say so then.
        """
        with self.doing(model.name, Stage.READING, serves=serves):
            tried(lambda: self._prepare(model))  # what fails there fails again
            began = time.monotonic()
            runner = tried(lambda: self._load(model))
            seconds = time.monotonic() - began
        if isinstance(runner, Exception):
            self._let_go(model.name, runner)
            try:
                raise runner
            finally:
                del runner  # the error knows this frame, and must not keep itself alive by it
        self.forget(model.name)
        metrics.model_load.observe(seconds)
        log.info("model_loaded", model=model.name, seconds=round(seconds, 2))
        self._on_loaded(model, seconds)
        return runner

    def _let_go(self, name: str, error: Exception) -> None:
        """Note why a model was not loaded, and give back what there was of it by then."""
        self.note_failure(name, error)
        if breaks_device(error):
            self._die()
        error.__traceback__ = error.__cause__ = error.__context__ = None
        tried(self._give_back)  # before another model comes; what failed is told all the same

    @contextmanager
    def doing(self, model: str, stage: Stage, *, serves: bool = True) -> Iterator[_Doing]:
        """Say that a model is got ready, as long as that takes."""
        now = time.monotonic()
        doing = _Doing(model=model, stage=stage, serves=serves, began=now, told=now)
        with self._lock:
            self._doing = (*self._doing, doing)
        log.info("model_warming", model=model, stage=stage, usual_s=self._usual_s(model))
        self._on_change()
        try:
            yield doing
        finally:
            with self._lock:
                self._doing = tuple(each for each in self._doing if each is not doing)

    def note_failure(self, model: str, error: Exception) -> None:
        """Note why a model cannot be used."""
        is_ours = isinstance(error, AtelierError)
        why = str(error) if is_ours else f"{type(error).__name__}: {error}"
        self._failed[model] = (time.monotonic(), why.partition("\n")[0][:MOST_CHARS])
        log.error("model_not_loaded", model=model, reason=why, exc_info=None if is_ours else error)

    def forget(self, model: str) -> None:
        """Know of no failure of a model any more: it is another one, or it is gone."""
        self._failed.pop(model, None)

    def tell(self) -> None:
        """Say in the log what has been going on for long. Called about once a second."""
        now = time.monotonic()
        for each in self._doing:
            if now - each.told >= TELL_S:
                each.told = now
                seconds = round(now - each.began)
                log.info("model_warming", model=each.model, stage=each.stage, seconds=seconds)
