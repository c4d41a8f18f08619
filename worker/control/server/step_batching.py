"""Step batching of a ControlNet worker: first come first served, like steps together."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from worker.control import wire
from worker.control.server.network import ControlStep, Network
from worker.control.server.peers import Hosted, Peer


@dataclass(slots=True, kw_only=True, eq=False)
class WaitingStep:
    """A step that waits to be computed."""

    peer: Peer
    hosted: Hosted
    network: Network
    step: ControlStep
    ask: wire.StepAsk
    at: float = field(default_factory=time.monotonic)  #: s, when it came
    num_sent: int = 0  #: residuals

    @property
    def rows(self) -> int:
        return self.step.begun.rows

    def answer(self, residuals: Sequence[Tensor]) -> None:
        """Send what there is of its residuals so far and has not been sent yet."""
        if len(residuals) > self.num_sent:
            self.peer.answer(
                self.ask,
                residuals,
                first=self.num_sent,
                total=self.network.num_residuals,
                split=self.network.split,
                held_s=time.monotonic() - self.at,
            )
            self.num_sent = len(residuals)

    def is_alike(self, other: "WaitingStep") -> bool:
        """Tell whether both can be computed in one call: not two of an image, as one is urgent."""
        is_of_another = self.hosted is not other.hosted
        is_same_shape = self.step.begun.group == other.step.begun.group
        return is_of_another and self.network is other.network and is_same_shape


class StepQueue:
    """The steps that wait. What came first is next, whoever asks: nobody starves."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._waiting: deque[WaitingStep] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, asked: WaitingStep) -> None:
        """Append a step to the line."""
        self._waiting.append(asked)

    def take(self) -> Sequence[WaitingStep]:
        """Take the step that came first, and others that are alike and fit beside it."""
        chosen: list[WaitingStep] = []
        left: deque[WaitingStep] = deque()
        rows = 0
        for asked in self._waiting:
            if asked.hosted.over.is_set():
                continue
            fits = not chosen or rows + asked.rows <= self._max_rows
            if fits and all(asked.is_alike(each) for each in chosen):
                chosen.append(asked)
                rows += asked.rows
            else:
                left.append(asked)
        self._waiting = left
        return chosen
