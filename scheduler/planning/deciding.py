"""Run a decision in a thread of its own while the lead is renewed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from scheduler.planning.decide import Decision

RENEW_S = 0.5  #: how often the lead is renewed while the solver works


class Deciding(Protocol):
    """Runs a decision; who simulates the service lets virtual time pass instead."""

    def __call__(
        self, decide: Callable[[], Decision], renew: Callable[[], Awaitable[bool]]
    ) -> Awaitable[Decision]:
        """Decide; `renew` keeps the lead meanwhile."""


async def in_thread(
    decide: Callable[[], Decision], renew: Callable[[], Awaitable[bool]]
) -> Decision:
    """Decide off the event loop."""
    deciding = asyncio.create_task(asyncio.to_thread(decide))
    while not (await asyncio.wait({deciding}, timeout=RENEW_S))[0]:
        await renew()  # if it is lost all the same, publishing finds out
    return await deciding
