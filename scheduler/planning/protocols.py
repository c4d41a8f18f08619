"""What planning is given: its stores, as protocols, and a classifier that is to take over."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.application import Application
from core.boards.fleet import QueueDepth, Worker
from core.boards.plan import Plan
from scheduler.profile.profile import Profile


class Fleet(Protocol):
    """What the workers and the queues say."""

    async def workers(self) -> Sequence[Worker]:
        """List the workers that report."""

    async def depths(self) -> Sequence[QueueDepth]:
        """Count what waits on each queue."""


class Registry(Protocol):
    """Where applications are registered."""

    async def all(self) -> Sequence[Application]:
        """List the applications of every tenant."""


class PlanPublisher(Protocol):
    """Where the plan is published."""

    async def publish(self, plan: Plan) -> bool:
        """Put a plan in force; no if a later one is."""

    async def read(self) -> Plan | None:
        """Read the plan in force."""


class Leader(Protocol):
    """The right to publish, held by one scheduler at a time."""

    async def acquire(self) -> int | None:
        """Become the leader if there is none; return the fence, or None."""

    async def renew(self) -> bool:
        """Stay the leader; no if the lease was lost."""

    async def release(self) -> None:
        """Let another lead at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Successor:
    """A classifier that takes force with the next plan: what it tells and what that is worth."""

    classes: tuple[str, ...]
    profile: Profile  #: with the qualities of these classes
    take_force: Callable[[], None]  #: classify by it
