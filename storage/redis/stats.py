"""Job counters kept by the scripts; they count transitions, so crashes do not skew them."""

from collections.abc import Mapping

from redis.asyncio import Redis

from storage.redis.connect import ask
from storage.redis.keys import STATS

#: Counters that say why a job was queued once more.
REDELIVERIES = ("released", "reaped", "republished", "rescued", "retried")


async def read_stats(redis: Redis) -> Mapping[str, int]:
    """Read all counters; one that never counted is absent.

    `submitted`, `refused`, `started`, `finished`, `jobs:<task>:<status>`, `level:<model>@<K>`,
    `slo_violations`, `fenced`, `released`, `reaped`, `republished`, `rescued`, `jobs_dead`,
    `webhooks:<outcome>`; and of the transport `messages_unreadable`.
    """
    counts = await ask(redis, "HGETALL", STATS)
    return {name.decode(): int(value) for name, value in counts.items()}
