"""Demand of every scheduler, exchanged through Redis for the leader to add up."""

import builtins
from typing import Protocol

from redis.asyncio import Redis

from core.boards.demand import ReportedDemand
from core.codec import decode, encode
from storage.redis.connect import converting_errors
from storage.redis.keys import DEMAND
from storage.redis.script import call, load


class Peers(Protocol):
    """What one scheduler asks of the others."""

    async def tell(self, asked: ReportedDemand) -> None:
        """Say what this scheduler is asked for; the store notes when."""

    async def others(self) -> builtins.list[ReportedDemand]:
        """Read what the others said in the last `stale_s`, by name."""


class DemandBoard:
    """What every scheduler was asked for, in one hash."""

    def __init__(self, redis: Redis, owner: str, *, stale_s: float) -> None:
        self._redis = redis
        self._owner = owner
        self._stale_s = stale_s

    async def tell(self, asked: ReportedDemand) -> None:
        """Say what this scheduler is asked for; the store notes when."""
        await call(self._redis, load("tell"), self._owner, encode(asked))

    async def others(self) -> builtins.list[ReportedDemand]:
        """Read what the others said in the last `stale_s`, by name."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.execute_command("TIME")
            pipe.execute_command("HGETALL", DEMAND)
            with converting_errors():
                (seconds, micros), told = await pipe.execute()
        now = int(seconds) + int(micros) / 1e6
        found = [
            (owner, *document.split(b" ", 1))
            for owner, document in sorted(told.items())
            if owner.decode() != self._owner
        ]
        return [
            decode(asked, ReportedDemand)
            for _, at, asked in found
            if int(at) / 1e3 >= now - self._stale_s
        ]
