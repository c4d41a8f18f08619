"""Queues of jobs whose latents may be reused, and of those deleted since, for the scheduler."""

from typing import Protocol

import redis
import redis.asyncio

from core.codec import decode, encode
from core.latents import Lender
from storage.redis.connect import ask
from storage.redis.keys import DELETED, LENDERS
from storage.redis.script import call_sync, load

#: Nobody takes them in: then the oldest go, and upkeep deletes their latents by age.
MAX_WAITING = 10_000


class NewLenders(Protocol):
    """What the scheduler asks for."""

    async def take(self, count: int) -> list[Lender]:
        """Take what has been announced since the last call."""

    async def take_deleted(self, count: int) -> list[str]:
        """Take jobs that were deleted since the last call; most of them lent nothing.

        Each is announced before it is deleted, or never: whoever asks for these and then takes all
        that was announced knows every lender among them.
        """


def announce(client: redis.Redis, lender: Lender) -> bool:
    """Say that a job's latents are in the store; False: it was deleted, and nobody is told."""
    words = (lender.id, encode(lender), MAX_WAITING)
    return bool(call_sync(client, load("lend"), *words))


class AnnouncedLenders:
    """Lenders in the order they were announced."""

    def __init__(self, redis: "redis.asyncio.Redis") -> None:
        self._redis = redis

    async def take(self, count: int) -> list[Lender]:
        """Take at most `count`; each is given once."""
        documents = await ask(self._redis, "RPOP", LENDERS, count)
        return [decode(document, Lender) for document in documents or ()]

    async def take_deleted(self, count: int) -> list[str]:
        """Take ids of jobs that were deleted, `count` at most; each is given once."""
        names = await ask(self._redis, "RPOP", DELETED, count)
        return [name.decode() for name in names or ()]
