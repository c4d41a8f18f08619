"""State of one session with a remote ControlNet, as its base worker keeps it."""

import secrets
import time
from dataclasses import dataclass, field
from typing import Protocol

from core.errors import EngineError
from worker.control import wire
from worker.control.offers import EXPIRES_S, SOON_S
from worker.control.session import Opening, StepQuery
from worker.control.shared_memory import Block
from worker.control.streamed import ArrivedResiduals


class Owner(Protocol):
    """Whoever sees to all sessions."""

    def is_slow(self, session: "RemoteSession") -> bool | None:
        """Tell whether waiting for the link costs too much; None while unknown."""

    def waits_for(self, session: "RemoteSession") -> str | None:
        """Say what a session cannot go on without, if anything."""

    def end(self, session: "RemoteSession") -> None:
        """Close a session here and at its worker."""


@dataclass(slots=True, kw_only=True)
class StepTiming:
    """How long a step took, as far as it is over."""

    position: int  #: of the schedule
    at: float  #: monotonic s
    is_first: bool  #: of its session: its residuals may have had no place yet
    waited_s: float = 0.0  #: by the base model
    lost_s: float = 0.0  #: of that, neither computing nor waiting for others on the other side
    held_s: float = 0.0  #: by the ControlNet worker, from the ask to its last answer
    transfer_s: float = 0.0  #: of what that answer took beside that
    heard_at: float = 0.0  #: monotonic s, when it was asked for, or a part of its answer came

    def __post_init__(self) -> None:
        """Be heard of as it is asked for."""
        self.heard_at = self.at

    def note_answer(self, held_s: float) -> None:
        """Note that an answer is here, which took so long on the other side."""
        self.held_s, self.heard_at = held_s, time.monotonic()
        self.transfer_s = max(0.0, self.heard_at - self.at - held_s)

    def note_wait(self, seconds: float) -> None:
        """Note that the base model has waited for what came last."""
        self.waited_s += seconds
        self.lost_s += min(seconds, self.transfer_s)


@dataclass(slots=True, kw_only=True, eq=False)
class RemoteSession:
    """One image and one ControlNet of another process."""

    owner: Owner
    opening: Opening
    waits_since: float  #: monotonic s, for a worker to take it: since it was first offered
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    taker: bytes | None = None  #: the worker that loads its ControlNet
    peer: bytes | None = None  #: the worker that has it
    offered_at: float = 0.0  #: monotonic s, last time
    num_offers: int = 0  #: since it was last taken
    is_suspect: bool = False  #: its worker was lost, and its image got no residuals since
    is_late: bool = False  #: its image has left its batch until all that was asked has come
    num_losses: int = 0  #: of workers that its image had for itself, since it got residuals
    error: EngineError | None = None  #: why there is no hope
    asked: dict[int, StepQuery] = field(
        default_factory=dict
    )  #: by step, without a whole answer yet
    answers: dict[int, ArrivedResiduals] = field(default_factory=dict)  #: of the last two steps
    block: Block | None = None  #: where its residuals lie
    last: StepTiming | None = None  #: how long the last step took

    def note(self, ask: StepQuery) -> None:
        """Note what is asked; of the steps before, only the last one is read yet."""
        last = ask.position - 1
        self.asked = {at: each for at, each in self.asked.items() if at >= last}
        self.answers = {at: each for at, each in self.answers.items() if at >= last}
        self.asked[ask.position] = ask

    def beginning(self) -> list[bytes | memoryview]:
        """Write down what its ControlNet is told once."""
        opening = self.opening
        begin = wire.Begin(
            session=self.id,
            condition=wire.spec(opening.condition),
            text=wire.spec(opening.text),
            added={name: wire.spec(value) for name, value in opening.added.items()},
        )
        return wire.frames(begin, [opening.condition, opening.text, *opening.added.values()])

    @property
    def rows(self) -> int:
        return len(self.opening.text)

    @property
    def workers(self) -> set[bytes]:
        """Whose loss concerns it."""
        return {worker for worker in (self.taker, self.peer) if worker is not None}

    @property
    def patience_s(self) -> float:
        """After how long an offer is made again: a worker that dies takes one along with it."""
        return min(EXPIRES_S, SOON_S * 2.0 ** (self.num_offers - 1))

    @property
    def is_slow(self) -> bool | None:
        """Whether waiting for its link costs too much; None while that is not known."""
        return self.owner.is_slow(self)

    @property
    def is_unbegun(self) -> bool:
        """Whether it may begin with a worker that is ready."""
        return self.peer is None and self.error is None

    def waits_for(self) -> str | None:
        """Say what it cannot go on without, if anything."""
        return self.owner.waits_for(self)

    def close(self) -> None:
        """End the session here and at its worker."""
        self.owner.end(self)
