"""Find settings of the store under which accepted jobs are lost: no log, eviction, lossy replay."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from storage.redis.connect import ask

#: What the append-only file holds of our scripts: a command for each kind of key, and the end of
#: a transaction, where a server checks them all.
REPLAYED: tuple[tuple[str, ...], ...] = (
    ("HSET", "job:0", "status", "queued"),
    ("ZADD", "leases", "0", "0"),
    ("LPUSH", "gen.0", "0"),
    ("XADD", "events:0", "*", "event", "done"),
    ("SET", "idem:0", "0"),
    ("DEL", "job:0"),
    ("PUBLISH", "bell:0", "done"),
    ("EXEC",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DurabilityFaults:
    """Whether the store keeps what it accepts, as far as our user may ask."""

    faults: tuple[str, ...] = ()  #: what loses jobs, each with the line of configuration to write
    unknown: tuple[str, ...] = ()  #: what the server does not tell us


async def read_durability(redis: Redis) -> DurabilityFaults:
    """Ask the store for the settings that decide whether a restart or a full memory loses jobs.

    Raises:
        StoreUnavailable: Redis cannot serve now.
    """
    faults: list[str] = []
    unknown: list[str] = []
    for name, find in _CHECKS.items():
        try:
            fault = await find(redis)
        except (ResponseError, KeyError):  # not allowed, not known to this server
            unknown.append(name)
        else:
            faults += [fault] if fault else []
    return DurabilityFaults(faults=tuple(faults), unknown=tuple(unknown))


async def _log(redis: Redis) -> str:
    if (await ask(redis, "INFO", "persistence"))["aof_enabled"]:
        return ""
    return "appendonly is no, so that a restart forgets every job: write `appendonly yes`"


async def _eviction(redis: Redis) -> str:
    info = await ask(redis, "INFO", "memory")
    policy = info["maxmemory_policy"]
    if policy == "noeviction" or not info["maxmemory"]:
        return ""
    return (
        f"maxmemory-policy is {policy}, so that a full memory evicts jobs: "
        "write `maxmemory-policy noeviction`"
    )


async def _replay(redis: Redis) -> str:
    """Try what a restart does: Redis 7.0 to 8 and Valkey 8 replay scripts as the default user."""
    for words in REPLAYED:
        if await ask(redis, "ACL", "DRYRUN", "default", *words) != b"OK":
            return (
                f"the user default may not run {words[0]}, so that a restart skips what scripts "
                "wrote: write `user default off ~* &* +@all`, which still lets nobody in"
            )
    return ""


_CHECKS: dict[str, Callable[[Redis], Awaitable[str]]] = {
    "appendonly": _log,
    "maxmemory-policy": _eviction,
    "what the user default may run": _replay,
}
