"""Job counters kept by the scripts; they count transitions, so crashes do not skew them."""

from collections import Counter
from collections.abc import Mapping

from redis.asyncio import Redis

from storage.redis.connect import ask
from storage.redis.keys import STATS

#: Counters that say why a job was queued once more.
REDELIVERIES = ("released", "reaped", "republished", "rescued", "retried")
ENDED = "ended\n"  #: before task, status, level and `late` of jobs that have ended, a line each
SUBMITTED = "submitted\n"  #: before the queue that jobs were stored on, unless a worker's own


async def read_stats(redis: Redis) -> Mapping[str, int]:
    """Read all counters; one that never counted is absent.

    `submitted`, `refused`, `finished`, `jobs:<task>:<status>`, `level:<model>@<K>`,
    `slo_violations`, `fenced`, `released`, `reaped`, `republished`, `rescued`, `jobs_dead`,
    `webhooks:<outcome>`; and of the transport `messages_unreadable`.
    """
    counts: Counter[str] = Counter()
    for name, value in (await ask(redis, "HGETALL", STATS)).items():
        for each in _names(name.decode()):
            counts[each] += int(value)
    return counts


def _names(name: str) -> list[str]:
    """Say what else is counted where something is."""
    if name.startswith(SUBMITTED):
        return ["submitted"]
    if not name.startswith(ENDED):
        return [name]
    task, status, level, late = name.removeprefix(ENDED).split("\n")
    names = ["finished", f"jobs:{task}:{status}"]
    return names + ([f"level:{level}"] if level else []) + (["slo_violations"] if late else [])
