"""Classifier versions and the retraining request, in Redis."""

from typing import Protocol

from redis.asyncio import Redis

from core.boards.classifier import ClassifierVersion
from core.codec import decode, encode
from storage.redis.connect import ask, converting_errors
from storage.redis.keys import CLASSIFIERS, WANTED

KEPT = 4  #: versions that are remembered: the one in force, and those to go back to


class Classifiers(Protocol):
    """What the scheduler and retraining ask of the board of classifiers."""

    async def want(self, cause: str) -> bool:
        """Ask for retraining; False: it was asked for before and has not been done."""

    async def wanted(self) -> str | None:
        """Say why a new classifier is wanted, if one is."""

    async def settle(self) -> None:
        """Say that what was wanted has been done, or cannot be."""

    async def publish(self, version: ClassifierVersion) -> list[ClassifierVersion]:
        """Put a version in force; return those that are forgotten for it."""

    async def versions(self) -> list[ClassifierVersion]:
        """Read the versions, the one in force first; none: the one that ships is in force."""


class ClassifierBoard:
    """Versions in one Redis list, and the wish for another: the wish outlives its messages."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def want(self, cause: str) -> bool:
        """Ask for retraining; False: it was asked for before and has not been done."""
        return bool(await ask(self._redis, "SET", WANTED, cause, "NX"))

    async def wanted(self) -> str | None:
        """Say why a new classifier is wanted, if one is."""
        cause = await ask(self._redis, "GET", WANTED)
        return None if cause is None else cause.decode()

    async def settle(self) -> None:
        """Say that what was wanted has been done, or cannot be."""
        await ask(self._redis, "DEL", WANTED)

    async def publish(self, version: ClassifierVersion) -> list[ClassifierVersion]:
        """Put a version in force; return those that are forgotten for it."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.execute_command("LPUSH", CLASSIFIERS, encode(version))
            pipe.execute_command("LRANGE", CLASSIFIERS, KEPT, -1)
            pipe.execute_command("LTRIM", CLASSIFIERS, 0, KEPT - 1)
            with converting_errors():
                _, dropped, _ = await pipe.execute()
        return [decode(document, ClassifierVersion) for document in dropped]

    async def versions(self) -> list[ClassifierVersion]:
        """Read the versions, the one in force first; none: the one that ships is in force."""
        documents = await ask(self._redis, "LRANGE", CLASSIFIERS, 0, -1)
        return [decode(document, ClassifierVersion) for document in documents]
