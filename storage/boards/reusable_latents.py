"""Queue of jobs whose latents may be reused: announced by workers, read by the scheduler."""

from typing import Protocol

import redis
import redis.asyncio

from core.codec import decode, encode
from core.latents import Lender
from storage.redis.connect import ask, ask_sync
from storage.redis.keys import LENDERS, job_key

#: Nobody takes them in: then the oldest go, and upkeep deletes their latents by age.
MAX_WAITING = 10_000


class NewLenders(Protocol):
    """What the scheduler asks for."""

    async def take(self, count: int) -> list[Lender]:
        """Take what has been announced since the last call."""


def announce(client: redis.Redis, lender: Lender) -> bool:
    """Say that a job's latents are in the store; False: it was deleted, and nobody is told."""
    if not ask_sync(client, "EXISTS", job_key(lender.id)):
        return False
    ask_sync(client, "LPUSH", LENDERS, encode(lender))
    ask_sync(client, "LTRIM", LENDERS, 0, MAX_WAITING - 1)
    return True


class AnnouncedLenders:
    """Lenders in the order they were announced."""

    def __init__(self, redis: "redis.asyncio.Redis") -> None:
        self._redis = redis

    async def take(self, count: int) -> list[Lender]:
        """Take at most `count`; each is given once."""
        documents = await ask(self._redis, "RPOP", LENDERS, count)
        return [decode(document, Lender) for document in documents or ()]
