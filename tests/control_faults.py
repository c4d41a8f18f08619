"""Makes an image whose ControlNet worker is lost on the way, and says when another was found."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from core.job import Job
from worker.control.client.remote import RemoteControlNets
from worker.control.client.remote_session import RemoteSession
from worker.diffusion.runner import ControlImages, Pixels
from worker.engine.engine import Engine

#: Steps that are made before a worker is lost between two.
BEFORE = 3
#: How long a worker computes at a step before it is lost.
COMPUTES_S = 0.05


class Phase(StrEnum):
    """When a ControlNet worker is lost."""

    OPENING = "while it loads"
    BETWEEN = "between two steps"
    COMPUTING = "while it computes"
    HANGING = "by hanging"
    ENDING = "at the end"


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What became of the image."""

    image: Pixels
    back_s: (
        float | None
    )  #: from the loss to the session on another worker; None: not needed any more


class Loss:
    """Loses the worker of an image in one phase: `stop` makes it hang, `kill` ends it."""

    def __init__(
        self,
        remote: RemoteControlNets,
        phase: Phase,
        *,
        stop: Callable[[], None],
        kill: Callable[[], None],
    ) -> None:
        self._remote = remote
        self._phase = phase
        self._stop = stop
        self._kill = kill
        self._lost: bytes | None = None  #: who was lost
        self._lost_at: float | None = None  #: monotonic s
        self._back_s: float | None = None

    def make(self, engine: Engine, job: Job, brought: ControlImages) -> Outcome:
        """Make one image, and lose its worker."""
        future = engine.add(job, None, brought)
        end = self._remote.end
        vars(self._remote)["end"] = partial(self._at_the_end, end)
        while not future.done():
            engine.step()
            self._look(engine.running[0].step if engine.running else 0)
        del vars(self._remote)["end"]
        return Outcome(image=future.result().images[0], back_s=self._back_s)

    def _look(self, step: int) -> None:
        """See how far the image is, and do what is due."""
        sessions = tuple(self._remote._sessions.values())
        if not sessions:
            return
        if self._lost_at is None:
            self._perhaps_lose(sessions[0], step)
        elif self._back_s is None and sessions[0].peer not in (None, self._lost):
            self._back_s = time.monotonic() - self._lost_at

    def _perhaps_lose(self, session: RemoteSession, step: int) -> None:
        is_begun = step >= BEFORE and session.peer is not None
        match self._phase:
            case Phase.OPENING if session.taker is not None:
                self._lose(session.taker, self._kill)
            case Phase.BETWEEN if is_begun:
                self._lose(session.peer, self._kill)
            case Phase.COMPUTING if is_begun:
                self._stop()
                threading.Timer(COMPUTES_S, self._lose, (session.peer, self._kill)).start()
                self._lost_at = time.monotonic()
            case Phase.HANGING if is_begun:
                self._lose(session.peer, self._stop)

    def _at_the_end(self, end: Callable[[RemoteSession], None], session: RemoteSession) -> None:
        if self._phase is Phase.ENDING and self._lost_at is None:
            self._lose(session.peer, self._kill)
        end(session)

    def _lose(self, worker: bytes | None, how: Callable[[], None]) -> None:
        self._lost = worker
        how()
        self._lost_at = time.monotonic()
