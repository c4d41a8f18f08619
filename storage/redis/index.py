"""Cursor pagination over indexes sorted by time, newest first."""

import re
from collections.abc import Sequence

from redis.asyncio import Redis

from storage.redis.connect import ask, converting_errors


def read_cursor(cursor: str | None) -> tuple[int, str] | None:
    """Read where a page ended: its last entry's time (epoch ms) and id; nonsense reads as None."""
    match = re.fullmatch(r"(\d{1,15})\.(.+)", cursor or "")
    return (int(match[1]), match[2]) if match else None


def write_cursor(at_ms: int, name: str) -> str:
    """Write where a page ends."""
    return f"{at_ms}.{name}"


async def ids_after(
    redis: Redis, key: str, cursor: str | None, count: int
) -> Sequence[tuple[str, int]]:
    """Read up to `count` ids and their times (epoch ms) that come after a cursor, by no rank.

    Raises:
        StoreUnavailable: Redis cannot serve now.
    """
    place = read_cursor(cursor)
    if place is None:
        return _entries(await ask(redis, "ZREVRANGE", key, 0, count - 1, "WITHSCORES"))
    at_ms, last = place
    async with redis.pipeline(transaction=False) as pipe:  # what comes and goes shifts nothing
        pipe.execute_command("ZREVRANGEBYSCORE", key, at_ms, at_ms, "WITHSCORES")
        older = "ZREVRANGEBYSCORE", key, f"({at_ms}", "-inf", "WITHSCORES", "LIMIT", 0, count
        pipe.execute_command(*older)
        with converting_errors():
            together, rest = await pipe.execute()
    beside = [(name, at) for name, at in _entries(together) if name < last]
    return [*beside, *_entries(rest)][:count]


def _entries(flat: Sequence[bytes]) -> Sequence[tuple[str, int]]:
    return [(name.decode(), score) for name, score in scored(flat)]


def scored(flat: Sequence[bytes]) -> Sequence[tuple[bytes, int]]:
    """Give what a sorted set answers its shape: members and their whole scores."""
    return [(name, int(score)) for name, score in zip(flat[::2], flat[1::2], strict=True)]
