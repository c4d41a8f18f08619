"""A table in Redis that operators write seldom and every api process follows: rows, a version."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar
from uuid import uuid4

from redis.asyncio import Redis

from core.codec import decode, encode
from storage.redis.connect import ask
from storage.redis.keys import version_key
from storage.redis.script import call, load

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows(Generic[R]):
    """All rows, as they were at one moment."""

    version: str  #: changes with every change of a row; empty: there was never one
    rows: tuple[R, ...]  #: in any order


class VersionedTable(Protocol[R]):
    """What the api asks of the store of a table."""

    async def version(self) -> str:
        """Read the version alone, to learn whether anything has changed."""

    async def read(self) -> TableRows[R]:
        """Read all rows."""

    async def write(self, rows: Sequence[R], *, read: str) -> bool:
        """Write rows by id, if no other change came after version `read`; tell whether."""


class TableStore(Generic[R]):
    """A table in Redis: one hash, and a version beside it."""

    def __init__(self, redis: Redis, key: str, of: type[R], id_of: Callable[[R], str]) -> None:
        """Keep rows of a type under a key, each by its id."""
        self._redis = redis
        self._key = key
        self._of: type[R] = of
        self._id_of = id_of

    async def get(self, row_id: str) -> R | None:
        """Read one row."""
        document = await ask(self._redis, "HGET", self._key, row_id)
        return None if document is None else decode(document, self._of)

    async def version(self) -> str:
        """Read the version alone, to learn whether anything has changed."""
        found = await ask(self._redis, "GET", version_key(self._key))
        return found.decode() if found else ""

    async def read(self) -> TableRows[R]:
        """Read all rows.

        The version is read first: rows that are newer than it are only read once more.
        """
        version = await self.version()
        documents = await ask(self._redis, "HVALS", self._key)
        return TableRows(version=version, rows=tuple(decode(each, self._of) for each in documents))

    async def write(self, rows: Sequence[R], *, read: str) -> bool:
        """Write rows by id, if no other change came after version `read`; tell whether.

        Raises:
            StoreUnavailable: they may or may not have been written.
        """
        words: list[str | bytes] = [self._key, read, uuid4().hex]
        for row in rows:
            words += [self._id_of(row), encode(row)]
        return bool(await call(self._redis, load("write_table"), *words))
