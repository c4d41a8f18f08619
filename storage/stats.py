"""Counters that the scripts keep: they count transitions, so they are right over any crash."""

from collections.abc import Mapping

from redis.asyncio import Redis

from storage.connect import ask
from storage.keys import STATS


async def read_stats(redis: Redis) -> Mapping[str, int]:
    """Read all counters; one that never counted is absent.

    `submitted`, `refused`, `started`, `finished`, `jobs:<task>:<status>`, `level:<model>@<K>`,
    `slo_violations`, `fenced`, `released`, `reaped`, `republished`, `rescued`, `jobs_dead`,
    `webhooks:<outcome>`; and of the transport `messages_unreadable`.
    """
    counts = await ask(redis, "HGETALL", STATS)
    return {name.decode(): int(value) for name, value in counts.items()}
