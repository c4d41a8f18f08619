"""Worker reports, the plan in force and leader election, in Redis."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol
from uuid import uuid4

import redis
import redis.asyncio

from core.boards.fleet import Worker
from core.boards.plan import Plan, WorkerAssignment
from core.codec import decode, encode
from core.schema import SCHEMA, Versioned
from storage.redis.connect import ask, ask_sync, converting_errors
from storage.redis.keys import ASSIGNMENTS, BEATS, FLEET, PLAN, leader_key
from storage.redis.script import call, call_sync, load

#: The store asks for all assignments: what was published last is not in force.
FROM_ALL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stamped:
    """What any version can read of a plan."""

    schema: int = 1


class Reporter:
    """Reports one worker: in full if there is news, else that the last report holds."""

    def __init__(self, client: redis.Redis) -> None:
        """Have said nothing yet. Any thread may report."""
        self._client = client
        self._said = b""
        self._number = 0  #: of the last report; 0: the store does not know it
        self._lock = threading.Lock()

    def report(self, worker: Worker) -> None:
        """Say what a worker holds and does; `beat_at` is set by the store.

        While it makes something every report counts as news: time has passed for that.
        """
        document = encode(worker)
        with self._lock:
            if document == self._said and not worker.works:
                self._number = self._say(worker.name, b"")
                if self._number:
                    return
            self._number = self._say(worker.name, document)
            self._said = document

    def _say(self, name: str, document: bytes) -> int:
        return int(call_sync(self._client, load("report"), name, self._number, document))


def retire(client: redis.Redis, name: str) -> None:
    """Forget a worker that ends on purpose, so that nothing is routed to it."""
    call_sync(client, load("retire"), name)


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


def _plan_of(document: bytes) -> Plan:
    SCHEMA.check(Versioned.PLAN, decode(document, _Stamped).schema, "this service")
    return decode(document, Plan)


class AssignmentReader:
    """Reads what the plan in force gives to one worker, in full where the plan is another one."""

    def __init__(self, client: redis.Redis, worker: str) -> None:
        self._client = client
        self._worker = worker
        self._stamp: list[bytes | None] = []  #: fence and version of the plan that was read
        self._given: WorkerAssignment | None = None

    def read(self) -> WorkerAssignment | None:
        """Read it, from one thread at a time; None: there is no plan.

        Raises:
            StoreUnavailable: the store cannot say now.
        """
        stamp = ask_sync(self._client, "HMGET", PLAN, "fence", "version")
        if stamp != self._stamp:
            self._given = self._read()
            self._stamp = stamp
        return self._given

    def _read(self) -> WorkerAssignment | None:
        with converting_errors(), self._client.pipeline(transaction=True) as pipe:
            pipe.hmget(PLAN, "version", "takes_latents")
            pipe.hget(ASSIGNMENTS, self._worker)
            (version, takes_latents), model = pipe.execute()
        if version is None:
            return None
        return WorkerAssignment(
            version=int(version),
            model=model.decode() if model is not None else None,
            takes_latents=takes_latents == b"1",
        )


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
        self._plan: Plan | None = None  #: as last read
        self._stamp: list[bytes | None] = []  #: its fence and version
        self._published: Plan | None = None  #: by us, last

    async def publish(self, plan: Plan) -> bool:
        """Put a plan in force; False: there is a newer leader, or a newer version of it."""
        before, self._published = self._published, None
        answer = FROM_ALL
        if before is not None and before.fence == plan.fence:
            answer = await self._publish(plan, before.version, before.assignments)
        if answer == FROM_ALL:
            answer = await self._publish(plan, -1, {})
        self._published = plan if answer else None
        return bool(answer)

    async def read(self) -> Plan | None:
        """Read the plan in force; while that is the same, so is what is returned.

        Raises: NewerSchema: a newer version made it.
        """
        stamp = await ask(self._redis, "HMGET", PLAN, "fence", "version")
        if stamp != self._stamp:
            *stamp, document = await ask(self._redis, "HMGET", PLAN, "fence", "version", "document")
            self._plan = _plan_of(document) if document else None
            self._stamp = stamp
        return self._plan

    async def _publish(self, plan: Plan, since: int, before: Mapping[str, str]) -> int:
        """Tell what workers are given that were given something else before."""
        now = plan.assignments
        gone = dict.fromkeys(before.keys() - now.keys(), "")
        changed = {name: model for name, model in now.items() if before.get(name) != model}
        args = (plan.fence, plan.version, encode(plan), int(plan.takes_latents), since)
        pairs = chain.from_iterable((changed | gone).items())
        return int(await call(self._redis, load("publish_plan"), *args, *pairs))


class Leadership:
    """One leader at a time in one matter, by lease; its fence grows with every change of leader."""

    def __init__(self, redis: "redis.asyncio.Redis", name: str, owner: str, ttl_s: float) -> None:
        """Lead in no matter yet; `owner` begins a name that no other has, nor had."""
        self._redis = redis
        self._name = name
        self._owner = f"{owner}:{uuid4().hex}"
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


async def is_led(client: "redis.asyncio.Redis", name: str) -> bool:
    """Tell whether anybody leads in a matter."""
    return bool(await ask(client, "EXISTS", leader_key(name)))
