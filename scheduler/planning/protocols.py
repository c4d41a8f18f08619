"""Protocols that planning depends on; the stores of `storage` and their fakes satisfy them."""

from collections.abc import Sequence
from typing import Protocol

from core.application import Application
from core.boards.fleet import QueueDepth, Worker
from core.boards.plan import Plan


class Fleet(Protocol):
    """What the workers and the queues say."""

    async def workers(self) -> Sequence[Worker]: ...
    async def depths(self) -> Sequence[QueueDepth]: ...


class Registry(Protocol):
    """Where applications are registered."""

    async def all(self) -> Sequence[Application]: ...


class Board(Protocol):
    """Where the plan is published."""

    async def publish(self, plan: Plan) -> bool: ...
    async def read(self) -> Plan | None: ...


class Leader(Protocol):
    """The right to publish, held by one scheduler at a time."""

    async def acquire(self) -> int | None: ...
    async def renew(self) -> bool: ...
    async def release(self) -> None: ...
