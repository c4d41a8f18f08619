"""Worker reports, the plan in force and leader election, in Redis."""

from dataclasses import replace
from typing import Protocol

import redis
import redis.asyncio

from core.boards.fleet import Worker
from core.boards.plan import Plan
from core.codec import decode, encode
from storage.redis.connect import ask, ask_sync, converting_errors
from storage.redis.keys import BEATS, FLEET, PLAN
from storage.redis.script import call, call_sync, load


def report(client: redis.Redis, worker: Worker) -> None:
    """Say what a worker holds and does; `beat_at` is set by the store."""
    call_sync(client, load("report"), worker.name, encode(worker))


def retire(client: redis.Redis, name: str) -> None:
    """Forget a worker that ends on purpose, so that nothing is routed to it."""
    ask_sync(client, "HDEL", FLEET, name)
    ask_sync(client, "ZREM", BEATS, name)


async def read_fleet(client: "redis.asyncio.Redis", stale_s: float) -> list[Worker]:
    """Read the workers that reported in the last `stale_s`, by name."""
    async with client.pipeline(transaction=True) as pipe:
        pipe.execute_command("TIME")
        pipe.execute_command("ZRANGE", BEATS, 0, -1, "WITHSCORES")
        pipe.execute_command("HGETALL", FLEET)
        with converting_errors():
            (seconds, micros), flat, reports = await pipe.execute()
    now = int(seconds) + int(micros) / 1e6
    beats = {name: int(ms) / 1e3 for name, ms in zip(flat[::2], flat[1::2], strict=True)}
    workers = [
        replace(decode(document, Worker), beat_at=beats[name])
        for name, document in reports.items()
        if beats.get(name, 0.0) >= now - stale_s
    ]
    return sorted(workers, key=lambda w: w.name)


def read_plan(client: redis.Redis) -> Plan | None:
    """Read the plan in force, for threads."""
    document = ask_sync(client, "HGET", PLAN, "document")
    return decode(document, Plan) if document else None


class Plans(Protocol):
    """What the scheduler and the api ask of the board."""

    async def publish(self, plan: Plan) -> bool:
        """Put a plan in force; False: there is a newer leader, or a newer version of it."""

    async def read(self) -> Plan | None:
        """Read the plan in force."""


class Leads(Protocol):
    """What whoever must be alone asks of a lease."""

    fence: int | None

    async def acquire(self) -> int | None:
        """Become leader if nobody is, or stay it; return the fence, or None."""

    async def renew(self) -> bool:
        """Go on leading for another lease; False: the lead is lost."""

    async def release(self) -> None:
        """Let somebody else lead at once."""


class PlanBoard:
    """The one plan in force."""

    def __init__(self, redis: "redis.asyncio.Redis") -> None:
        self._redis = redis

    async def publish(self, plan: Plan) -> bool:
        """Put a plan in force; False: there is a newer leader, or a newer version of it."""
        args = (plan.fence, plan.version, encode(plan))
        return bool(await call(self._redis, load("publish_plan"), *args))

    async def read(self) -> Plan | None:
        """Read the plan in force."""
        document = await ask(self._redis, "HGET", PLAN, "document")
        return decode(document, Plan) if document else None


class Leadership:
    """One leader at a time in one matter, by lease; its fence grows with every change of leader."""

    def __init__(self, redis: "redis.asyncio.Redis", name: str, owner: str, ttl_s: float) -> None:
        self._redis = redis
        self._name = name
        self._owner = owner
        self._ttl_ms = int(ttl_s * 1000)
        self.fence: int | None = None  #: while we lead, as far as we know

    async def acquire(self) -> int | None:
        """Become leader if nobody is, or stay it; return the fence, or None."""
        if self.fence is not None and await self.renew():
            return self.fence
        fence = await self._ask(0, "keep")
        self.fence = fence or None
        return self.fence

    async def renew(self) -> bool:
        """Go on leading for another lease; False: the lead is lost."""
        if self.fence is not None and not await self._ask(self.fence, "keep"):
            self.fence = None
        return self.fence is not None

    async def release(self) -> None:
        """Let somebody else lead at once."""
        fence, self.fence = self.fence, None
        if fence is not None:
            await self._ask(fence, "drop")

    async def _ask(self, fence: int, wish: str) -> int:
        args = (self._name, self._owner, self._ttl_ms, fence, wish)
        return int(await call(self._redis, load("lead"), *args))
