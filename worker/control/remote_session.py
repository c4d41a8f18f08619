"""What does a base worker know of one session with a ControlNet of another process?"""

import secrets
from dataclasses import dataclass, field
from typing import Protocol

from core.errors import EngineError
from worker.control.arena import Block
from worker.control.offers import EXPIRES_S, SOON_S
from worker.control.session import Ask, Opening, Residuals


class Owner(Protocol):
    """Whoever sees to all sessions."""

    def is_slow(self, session: "RemoteSession") -> bool | None: ...
    def waits_for(self, session: "RemoteSession") -> str | None: ...
    def end(self, session: "RemoteSession") -> None: ...


@dataclass(slots=True, kw_only=True)
class Timed:
    """How long a step took, as far as it is over."""

    at: float  #: monotonic s
    is_first: bool  #: of its session: its residuals may have had no place yet
    waited_s: float = 0.0  #: by the base model
    held_s: float = 0.0  #: by the ControlNet worker, from the ask to the answer
    transfer_s: float = 0.0  #: of what the answer took beside that


@dataclass(slots=True, kw_only=True, eq=False)
class RemoteSession:
    """One image and one ControlNet of another process."""

    owner: Owner
    opening: Opening
    waits_since: float  #: monotonic s, for a worker to take it
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    taker: bytes | None = None  #: the worker that loads its ControlNet
    peer: bytes | None = None  #: the worker that has it
    offered_at: float = 0.0  #: monotonic s, last time
    num_offers: int = 0  #: since it was last taken
    error: EngineError | None = None  #: why there is no hope
    asked: dict[int, Ask] = field(default_factory=dict)  #: by step, without an answer yet
    answers: dict[int, Residuals] = field(default_factory=dict)  #: of the last two steps
    block: Block | None = None  #: where its residuals lie
    last: Timed | None = None  #: how long the last step took

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

    def waits_for(self) -> str | None:
        return self.owner.waits_for(self)

    def close(self) -> None:
        self.owner.end(self)
