"""Which steps does a ControlNet worker compute next, and which of them together?"""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from worker.control import wire
from worker.control.network import Network, Step
from worker.control.peers import Hosted, Peer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asked:
    """A step that waits to be computed."""

    peer: Peer
    hosted: Hosted
    network: Network
    step: Step
    ask: wire.StepAsk
    at: float = field(default_factory=time.monotonic)  #: s, when it came

    @property
    def rows(self) -> int:
        return self.step.begun.rows

    def is_alike(self, other: "Asked") -> bool:
        """Tell whether both can be computed in one call."""
        return self.network is other.network and self.step.begun.group == other.step.begun.group


class Turns:
    """The steps that wait. What came first is next, whoever asks: nobody starves."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._waiting: deque[Asked] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, asked: Asked) -> None:
        self._waiting.append(asked)

    def take(self) -> Sequence[Asked]:
        """Take the step that came first, and others that are alike and fit beside it."""
        chosen: list[Asked] = []
        left: deque[Asked] = deque()
        rows = 0
        for asked in self._waiting:
            if asked.hosted.over.is_set():
                continue
            fits = not chosen or rows + asked.rows <= self._max_rows
            if fits and (not chosen or asked.is_alike(chosen[0])):
                chosen.append(asked)
                rows += asked.rows
            else:
                left.append(asked)
        self._waiting = left
        return chosen
