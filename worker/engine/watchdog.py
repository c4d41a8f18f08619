"""Notice that the engine hangs, by the limits that its own steps have set."""

import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from worker.awake_clock import Lasting
from worker.engine.idle_work import TIMING
from worker.engine.slowdown import StepPace
from worker.engine.stats import DENOISING, Activity
from worker.engine.step_limits import StepLimits

#: How often the engine is looked at.
LOOK_S = 0.5
#: A step with ControlNets may wait so long for those of another process, which has limits too.
STEERED_S = 150.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """An activity that has not come to an end."""

    activity: Activity
    seconds: float  #: since it began
    limit_s: float


class Watched(Protocol):
    """What the watch looks at: the engine."""

    @property
    def activity(self) -> Activity | None: ...


class Watch:
    """Looks at one engine. `look` belongs to one thread."""

    def __init__(
        self,
        engine: Watched,
        limits: StepLimits,
        *,
        expect: Callable[[Activity], float | None],
        on_hang: Callable[[Hang], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; `expect` says how long a step takes as far as it was profiled (s)."""
        self._engine = engine
        self._limits = limits
        self._expect = expect
        self._on_hang = on_hang
        self._clock = clock
        self._lasting = Lasting(2 * LOOK_S)

    def look(self) -> None:
        """Look once: is the engine still at what it was at for too long?"""
        activity = self._engine.activity
        seconds = self._lasting.look(self._clock(), activity)
        if activity is not None and seconds > (limit_s := self.limit_s(activity)):
            self._on_hang(Hang(activity=activity, seconds=seconds, limit_s=limit_s))

    def limit_s(self, activity: Activity) -> float:
        """Say how long it may take."""
        limit_s = self._limits.limit_s(
            activity.key,
            self._expect(activity),
            is_compiled=activity.model.is_compiled,
            is_steady=activity.doing == DENOISING,
        )
        return limit_s + STEERED_S * activity.is_steered


def expected_s(pace: StepPace, activity: Activity) -> float | None:
    """Expect a call of a model to take this long on this device (s); None: unknown."""
    step_s = pace.step_s(activity.model, activity.rows, activity.pixels)
    if activity.doing == DENOISING:
        return step_s
    around_s = pace.around_s(activity.model, activity.pixels)
    if activity.doing == TIMING and step_s is not None:  # a step, or what comes beside them
        return max(step_s, around_s or 0.0)
    return around_s


def frames_of(*names: str) -> list[str]:
    """List where threads of this process stand whose names begin so, each outermost first."""
    frames = sys._current_frames()
    return [
        line.strip()
        for name in names
        for thread in threading.enumerate()
        if thread.name.startswith(name) and thread.ident in frames
        for line in traceback.format_stack(frames[thread.ident])
    ]
