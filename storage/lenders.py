"""Which jobs have just left latents behind? Told by workers, taken in by the scheduler."""

from typing import Protocol

import redis
import redis.asyncio

from core.latents import Lender
from storage.codec import decode, encode
from storage.connect import ask, ask_sync
from storage.keys import LENDERS

#: Nobody takes them in: then the oldest go, and upkeep deletes their latents by age.
MAX_WAITING = 10_000


class NewLenders(Protocol):
    """What the scheduler asks for."""

    async def take(self, count: int) -> list[Lender]: ...


def announce(client: redis.Redis, lender: Lender) -> None:
    """Say that a job's latents are in the store."""
    ask_sync(client, "LPUSH", LENDERS, encode(lender))
    ask_sync(client, "LTRIM", LENDERS, 0, MAX_WAITING - 1)


class AnnouncedLenders:
    """Lenders in the order they were announced."""

    def __init__(self, redis: "redis.asyncio.Redis") -> None:
        self._redis = redis

    async def take(self, count: int) -> list[Lender]:
        """Take at most `count`; each is given once."""
        documents = await ask(self._redis, "RPOP", LENDERS, count)
        return [decode(document, Lender) for document in documents or ()]
