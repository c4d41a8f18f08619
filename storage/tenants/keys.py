"""Store of tenants' API keys in Redis: written by operators, followed by every api process."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

from redis.asyncio import Redis

from core.codec import decode, encode
from storage.redis.connect import ask
from storage.redis.keys import TENANT_KEYS, TENANT_KEYS_VERSION
from storage.redis.script import call, load
from storage.tenants.key import TenantKey


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTable:
    """All keys, as they were at one moment."""

    version: str  #: changes with every change of a key; empty: there was never one
    keys: tuple[TenantKey, ...]  #: newest first


class Keys(Protocol):
    """What the api asks of a store of keys."""

    async def version(self) -> str:
        """Read the version alone, to learn whether anything has changed."""

    async def read(self) -> KeyTable:
        """Read all keys."""

    async def write(self, keys: Sequence[TenantKey], *, read: str) -> bool:
        """Write keys by id, if no other change came after version `read`; tell whether."""


class KeyStore:
    """Keys in Redis: one hash, and a version beside it."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def version(self) -> str:
        """Read the version alone, to learn whether anything has changed."""
        found = await ask(self._redis, "GET", TENANT_KEYS_VERSION)
        return found.decode() if found else ""

    async def read(self) -> KeyTable:
        """Read all keys.

        The version is read first: keys that are newer than it are only read once more.
        """
        version = await self.version()
        documents = await ask(self._redis, "HVALS", TENANT_KEYS)
        return KeyTable(
            version=version, keys=newest_first(decode(each, TenantKey) for each in documents)
        )

    async def write(self, keys: Sequence[TenantKey], *, read: str) -> bool:
        """Write keys by id, if no other change came after version `read`; tell whether.

        Raises:
            StoreUnavailable: they may or may not have been written.
        """
        words: list[str | bytes] = [read, uuid4().hex]
        for key in keys:
            words += [key.id, encode(key)]
        return bool(await call(self._redis, load("write_keys"), *words))


def newest_first(keys: Iterable[TenantKey]) -> tuple[TenantKey, ...]:
    """Sort keys as they are listed."""
    return tuple(sorted(keys, key=lambda each: (-each.created_at, each.id)))
