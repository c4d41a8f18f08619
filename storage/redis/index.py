"""Cursor pagination over indexes sorted by time, newest first."""

import re
from collections.abc import Sequence

from redis.asyncio import Redis

from storage.redis.connect import ask


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
    """Read up to `count` ids and their times (epoch ms) that come after a cursor.

    Raises:
        StoreUnavailable: Redis cannot serve now.
    """
    start = 0
    place = read_cursor(cursor)
    if place is not None:
        rank = await ask(redis, "ZREVRANK", key, place[1])
        start = await _before(redis, key, *place) if rank is None else rank + 1
    flat = await ask(redis, "ZREVRANGE", key, start, start + count - 1, "WITHSCORES")
    return [(name.decode(), score) for name, score in scored(flat)]


async def _before(redis: Redis, key: str, at_ms: int, name: str) -> int:
    """Count what comes before a place where nothing is: deleted since, or another cell's."""
    newer = await ask(redis, "ZCOUNT", key, f"({at_ms}", "+inf")
    together = await ask(redis, "ZRANGEBYSCORE", key, at_ms, at_ms)
    return int(newer) + sum(1 for each in together if each.decode() > name)


def scored(flat: Sequence[bytes]) -> Sequence[tuple[bytes, int]]:
    """Give what a sorted set answers its shape: members and their whole scores."""
    return [(name, int(score)) for name, score in zip(flat[::2], flat[1::2], strict=True)]
